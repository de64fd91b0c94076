"""Weights of a chain by the names of features and labels."""

import numpy as np
from scipy import sparse


def weights_of_pairs(classes, transitions):
    """Dict of the weights of pairs of labels, of a sparse table only those stored."""
    names = classes.tolist()
    if sparse.issparse(transitions):
        table = transitions.tocoo()
        rows, columns, values = table.row, table.col, table.data
    else:
        rows, columns = np.indices(transitions.shape).reshape(2, -1)
        values = transitions.ravel()
    return {
        (names[i], names[j]): float(value)
        for i, j, value in zip(rows, columns, values, strict=True)
    }


def weights_of_features(classes, coef, features=None):
    """Dict of the nonzero weights of pairs of a feature, x0, x1, ..., and a label."""
    if features is None:
        features = [f"x{j}" for j in range(coef.shape[1])]
    names = classes.tolist()
    rows, columns = np.nonzero(coef)
    return {
        (features[j], names[k]): float(value)
        for k, j, value in zip(rows, columns, coef[rows, columns], strict=True)
    }
