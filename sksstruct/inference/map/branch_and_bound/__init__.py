"""Branch and bound: an optimal labeling, with a proof of optimality.

Reading order: `branch_and_bound` (the solver), `exact_search` (the search over a
graph), `_terms` (scores become integer costs), `_simplify` (variable elimination,
connected components), `_best_first` and `_cluster_tree` (the search in one component),
and `turns` (how long the search runs beside another solver).
`network` and `search` allocate the arrays of the kernels, each of which builds on the
one before: costs (`_network`), soft arc consistency (`_consistency`), depth-first
search (`_depth_first`, with `_tail` for variables that need no branching), and
depth-first search along a tree of clusters (`_tree_search`).

Data flow: scores, integer costs, costs moved to a lower bound at the root, components,
decisions and dead ends, and back from the values of components to a labeling.
"""
