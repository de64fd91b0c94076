"""Protocols that a solver can request from a bound model.

The central protocol is `_bound_model.pyx`: potentials, oracles and changes of mean
parameters of one example. `_weights.pyx` has the vectors that a model reads and
changes, `trainable.py` the attributes that all trained models share. Some solvers also
need losses with a gradient (`_smooth_loss.pyx`, `_topk_hinge.pyx`,
`nonlinear_loss.py`), dual variables (`_entropy_dual.pyx`, `duals.py`), factors
(`_factors.pyx`, `_cliques.pyx`), or the best labelings of all examples (`decoding.py`).
"""
