"""Scores of labels at single positions, without boundary and transition weights."""

from sksstruct.models.tables._feature_rows cimport FeatureRows


def write_row_scores(X, const double[:, ::1] emission, const double[::1] intercept,
                     double[:, ::1] out):
    """Write intercept + X emission to `out`, with the rounding of `GivenChain`.

    Parameters
    ----------
    X : PackedSequences
        Features.
    emission : ndarray of shape (n_features, ld)
        Emission rows, one feature at least.
    intercept : ndarray of shape (ld,)
        Bias.
    out : ndarray of shape (n_positions, ld)
        Overwritten with the scores.
    """
    cdef FeatureRows rows = FeatureRows(X)
    cdef Py_ssize_t ld = out.shape[1]
    if rows.n_features != emission.shape[0] or ld != emission.shape[1]:
        raise ValueError(
            "X, emission and out must agree in their numbers of labels and features")
    with nogil:
        if out.shape[0]:
            rows.scores_of_rows(0, out.shape[0], &emission[0, 0], ld, ld,
                                &intercept[0], &out[0, 0])
