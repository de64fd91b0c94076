"""Oracles on semi-Markov chains, whose parts are labeled segments.

`_oracles` has the public functions, `_semi_markov` checks and pads their arguments, and
`_potentials` hands the arrays to the kernels as the struct `Segments` of `_scores`. The
kernels: `_segments` (max-product), `_topk` (k best), `_sums` (sum-product, with the
sums over lengths of `_scaled`). All kernels use `_tails` for segments beyond the table
of lengths, and `_boundaries` for first and last segments whose lengths have other
scores.
"""
