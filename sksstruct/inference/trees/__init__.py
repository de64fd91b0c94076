"""Oracles on trees and forests: max-product, the k best, sum-product, max-marginals.

`_tree` finds the order of messages. `_forest` packs potentials in this order and passes
messages, for variables that differ in their states; `_trees` has its public functions.
`_flat` and `_sums` (with the scaled messages of `_scaled`) do the same for variables
with equal labels, in the memory of bound models and without the interpreter. `_topk`
finds the k best labelings for both. `_messages` has single steps of max-product.
"""
