"""Minimum cuts, and problems that reduce to them.

`_maxflow` finds maximum flows by search trees, in a class that `_mincut` and
`_reduced_roof` extend. `_mincut` turns scores of binary variables into capacities, and
cuts into labelings, `_topk` finds the k best labelings from the residual graph, and
`_solver` has the public functions. `_reduced_roof` finds half-integral points for pairs
of labels whose scores have any sign.
"""
