"""Best-first search and enumeration.

`_best_first` is the base of kernels for the k best labelings, which split the set of
labelings into parts; `_bmmf` (with `_max_marginals`) derives the parts from
max-marginals, and `_partition` from any solver of the best labeling. `_a_star` searches
paths, `_branch_and_bound` sets of labelings, `_boxes` (with `_image_boxes`) boxes in
images. `_exhaustive` enumerates all labelings.
"""
