"""Stochastic solvers: gradient or dual ascent steps on one example at a time.

* `sgd.py`, `ssg.py` and `dcd.py` are solvers on their own; `iterates.py` and
  `_stochastic.pyx` have the lazily shrunk weights and steps of `sgd.py` and `ssg.py`.
* `svrg.py` and `casimir.py` run epochs of variance-reduced steps (`_epochs.py`,
  `_epochs_run.py`, `_steps.py`), Casimir within the outer loop of `_catalyst.py`;
  `prox_linear.py` linearizes nonlinear scores around such solvers.
* `sdca.py`, with `dual_ascent.py` and `_dual_ascent.pyx`, ascends the dual.

Data flow of a step: example -> oracle -> mean parameters or labeling -> change of the
rows of weights that the example reads.
"""
