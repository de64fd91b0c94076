"""Models whose scores are tables: rows of features times blocks of weights.

In reading order: `_feature_rows.pyx` (rows, and their products with weights),
`_blocks.pyx` (layout of the weights), `_structure.pyx` (labelings and oracles on
tables), `_table.pyx` (the bound model, which joins weights and structure). The products
of features and weights are an example's tables. An oracle of the structure picks
entries of the tables, and `_change.pyx` adds the image of a change of entries to the
weights, with norms from `_gram.pyx`. Further files: `_smooth.pyx` and
`_entropy_dual.pyx` (smooth losses and their duals), `_columns.pyx` (gradients),
`_row_factors.pyx` (factors) and `completion.py` (partial labelings).
"""
