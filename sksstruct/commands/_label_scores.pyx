"""Scores of the labels of tokens, without the imports of `sksstruct.models`."""

from libc.stdint cimport int32_t, int64_t

from sksstruct.utils._simd cimport sks_scores_f64


def write_label_scores(const double[::1] values, const int32_t[::1] features,
                       const int64_t[::1] rows, const double[:, ::1] weights,
                       const double[::1] bias, double[:, ::1] out):
    """Write label scores: bias plus CSR rows times weights, rounded as by `GivenChain`.

    Parameters
    ----------
    values, features, rows : ndarray
        The arrays of CSR rows, whose features are all less than ``len(weights)``.
    weights : ndarray of shape (n_features, ld)
        Rows that are padded as `sksstruct.utils._layout.padded_length` says.
    bias : ndarray of shape (ld,)
        Bias.
    out : ndarray of shape (n_rows, ld)
        Room for the scores.
    """
    cdef Py_ssize_t ld = weights.shape[1], n_rows = rows.shape[0] - 1, t
    cdef const double* value = &values[0] if values.shape[0] else NULL
    cdef const int32_t* feature = &features[0] if features.shape[0] else NULL
    if out.shape[0] != n_rows or out.shape[1] != ld or bias.shape[0] != ld:
        raise ValueError("weights of different numbers of labels or rows")
    with nogil:
        for t in range(n_rows):
            sks_scores_f64(
                rows[t + 1] - rows[t], feature + rows[t], value + rows[t], 1.0,
                &weights[0, 0], ld, &bias[0], &out[t, 0])
