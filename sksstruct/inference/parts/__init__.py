"""Trees of parts, whose states are positions on a grid.

`_oracles` has the public functions, and `_arrays` checks and allocations. `_parts` is
max-product by distance transforms, `_sums` sum-product by log-sum transforms, and
`_topk` finds the k best placements with the lists of `inference/trees/_topk.pyx`.
"""
