"""Oracles on chains: max-product, the K best labelings, sum-product, smoothing.

`_viterbi`, `_topk` and `_sumproduct` are the kernels on dense tables of pair scores,
with rows padded to `ld`; `_oracles` and `_smoothing` call them. `_pair_index` numbers
the pairs of labels that have a score, for the sparse table of `_sparse_viterbi` and the
`_ordered_table` of indicator factors. `_triples` holds the layout of triples of labels,
for `_second_order` (K best) and `_second_order_sums`. `_online` and `_online_steps`
decode a chain position by position. `_schemes` lists the pairs that a scheme forbids.
"""
