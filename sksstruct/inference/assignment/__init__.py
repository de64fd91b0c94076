"""Bipartite matchings: best assignment, max-marginals, and the k best assignments.

`_matching` has the public functions, on SciPy's solver; `_paths` computes dual prices
and max-marginals from the residual graph of a best assignment. `_assign` is a compiled
solver for kernels, and `_topk` uses it to find the k best assignments.
"""
