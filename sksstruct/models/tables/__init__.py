"""Models whose scores are tables: rows of features times blocks of weights.

In reading order: `_feature_rows.pyx` (rows, and their products with weights),
`_blocks.pyx` (layout of the weights), `_structure.pyx` (labelings and oracles on
tables), `_table.pyx` (the bound model, which joins both). Features times weights make
`_table.pyx` (the bound model, which joins both). Features times weights make
an example's tables, an oracle of the structure picks entries, and a change of entries
(`_change.pyx`, norms by `_gram.pyx`) is scattered to the weights. Further files:
`_smooth.pyx` and `_entropy_dual.pyx` (smooth losses and their duals), `_columns.pyx`
(gradients), `_row_factors.pyx` (factors) and `completion.py` (partial labelings).
"""
