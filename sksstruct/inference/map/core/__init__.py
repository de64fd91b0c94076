"""Parts that all solvers of MAP problems share.

`solver` is the base class: it reduces the graph (`_reduce`, with `_forced` and
`_cliques`), flattens it into the arrays of a `problem` (kernels `_problem` and
`_tables`), and makes a `run`, which collects labelings and bounds and becomes a
`result`. `rounding` and `_rounding` make labelings of fractional solutions, which
`_decode` improves by local search. `_index` has lists in flat arrays; `_written` has a
graph as plain arrays, for external solvers.
"""
