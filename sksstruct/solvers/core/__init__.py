"""Common parts of all solvers: parameters, the loop, results, names.

* `base.py` has the classes of solvers, `registry.py` their names, `result.py` the
  result.
* `loop.py` makes passes until the certificate is good enough; `dual_value.py`,
  `certificate.py`, `box.py` and `risk.py` compute objectives and certificates.
* `quasi_newton.py` and `orthants.py` have L-BFGS; `procedures.py` and `segments.py`
  train more than once.
"""
