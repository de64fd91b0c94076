"""Oracles on semi-Markov chains, whose parts are labeled segments.

`_oracles` has the public functions, `_semi_markov` checks and pads their arguments, and
`_potentials` hands the arrays to the kernels as the struct `Segments` of `_scores`. The
kernels: `_segments` (max-product), `_topk` (k best), `_sums` (sum-product, with the
sums over lengths of `_scaled`). To all kernels `_tails` adds segments beyond the table
of lengths, and `_boundaries` first and last segments with length scores of their own.
"""
