"""Greedy direction methods of multipliers (GDMM), and AD3 for comparison.

Algorithm 1, for large domains: `gdmm` is the solver, `state` sets up the kernel
`_state`, whose sparse vectors are in `_slots`; `_edge_search` and `_higher_search` find
the entries of steepest descent, with the sorted lists of `_toplists`. `ad3` is a
variant with more steps per factor. Algorithm 2, for many binary factors: `binary` is
the solver, `binary_state` chooses what becomes active, `_binary_state` is the kernel.
"""
