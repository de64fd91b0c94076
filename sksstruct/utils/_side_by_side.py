"""Features of the same positions side by side, as scikit-learn's unions make them."""

import numpy as np
from scipy import sparse

from sksstruct.utils._names import FeatureNames
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.validation import check_sequences


def side_by_side(parts):
    """Sequences whose rows are the rows of all parts, one after the other.

    Parameters
    ----------
    parts : list of {PackedSequences, list of matrix}
        Features of the same sequences. One at least has names, or is sparse, or is a
        `PackedSequences`.

    Returns
    -------
    packed : PackedSequences
        As CSR if a part is. If a part has names, features without names are named as
        their columns are numbered, ``x0`` and so on, and names that an earlier part has
        too begin with the number of their part, ``1__``.

    Raises
    ------
    ValueError
        If parts differ in the number of sequences, or of positions.
    """
    parts = [
        check_sequences(part, all_empty=True, name=f"part {k} of X")
        for k, part in enumerate(parts)
    ]
    first = parts[0]
    for k, part in enumerate(parts):
        if len(part) != len(first):
            raise ValueError(
                f"part {k} of X has {len(part)} sequences, part 0 has {len(first)}"
            )
        wrong = np.flatnonzero(part.lengths != first.lengths)
        if len(wrong):
            i = wrong[0]
            raise ValueError(
                f"part {k} of X has {part.lengths[i]} positions in sequence {i}, part "
                f"0 has {first.lengths[i]}"
            )
    values = [part.values for part in parts]
    if any(part.is_sparse for part in parts):
        values = sparse.hstack([sparse.csr_array(v) for v in values], format="csr")
    else:
        values = np.hstack(values)
    names = FeatureNames.joined(
        [p.n_features if p.feature_names is None else p.feature_names for p in parts]
    )
    return PackedSequences(values, first.offsets, names)
