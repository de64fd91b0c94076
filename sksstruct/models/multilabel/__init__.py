"""Sets of labels that interact in pairs.

`forms` and `unknown` read y as an indicator, `_pairs` chooses the pairs, and
`multilabel` binds the data: to `conditional`, a loss of each label given the other
labels, whose Newton steps are in `curvature`, or to label sets and their `factors`.
`decoding` and `best_sets` find the best sets at given scores, and `targets` chooses the
predicted labels from scores.
"""
