"""Dependency trees, whose scores are sums over arcs.

`_oracles` has the public functions. `_projective` is Eisner's chart: the best tree, the
k best, and sums. `_nonprojective` finds the best arborescence and the k best, and
`_spanning_sums` sums over all arborescences. `_arcs` has the layout of scores.
"""
