"""The loop of `SequenceVectorizer` over sequences, positions and features."""

from collections.abc import Mapping

import numpy as np

from cpython.float cimport PyFloat_AsDouble

from array import array

from cpython cimport array as c_array


def collect(X, dict vocabulary, bint grow, str separator):
    """CSR arrays (data, indices, indptr) and offsets of sequences of features.

    Features missing in the vocabulary are added to it if grow, else left out.
    """
    cdef c_array.array data = array("d"), indices = array("i"), ends = array("q", [0])
    cdef c_array.array offsets = array("q", [0])
    cdef Py_ssize_t i, t, n_rows = 0
    # Joined names by name and value: most features are met again and again.
    cdef dict joined = {}
    cdef dict of_name
    cdef double value
    cdef object name, item, key, column
    for i, sequence in enumerate(X):
        if isinstance(sequence, (str, bytes, Mapping)):
            raise TypeError(
                f"X[{i}] is a single {type(sequence).__name__}: a sequence is a list "
                "of dicts or of lists of strings")
        for t, position in enumerate(sequence):
            if isinstance(position, Mapping):
                for name, item in position.items():
                    if not isinstance(name, str):
                        raise TypeError(
                            f"X[{i}] has a feature name that is not a string at "
                            f"position {t}: {name!r:.80}")
                    value = 1.0
                    key = name
                    if isinstance(item, str):
                        of_name = joined.get(name)
                        if of_name is None:
                            of_name = joined[name] = {}
                        key = of_name.get(item)
                        if key is None:
                            key = of_name[item] = f"{name}{separator}{item}"
                    else:
                        try:
                            value = PyFloat_AsDouble(item)
                        except TypeError:
                            raise TypeError(
                                f"X[{i}] has a value that is neither a number nor a "
                                f"string at position {t}: {name!r:.80}: {item!r:.80}"
                            ) from None
                        if value != value or value - value != 0.0:
                            raise ValueError(
                                f"X[{i}] contains NaN or infinity at position {t}: "
                                f"{name!r:.80}")
                    column = vocabulary.get(key)
                    if column is None:
                        if not grow:
                            continue
                        column = vocabulary[key] = len(vocabulary)
                    indices.append(column)
                    data.append(value)
            elif isinstance(position, (str, bytes)):
                raise TypeError(
                    f"X[{i}] has a single string at position {t}: the features of a "
                    "position are a dict or a list of strings")
            else:
                for key in position:
                    column = vocabulary.get(key)
                    if column is None:
                        if not isinstance(key, str):
                            raise TypeError(
                                f"X[{i}] has a feature that is not a string at "
                                f"position {t}: {key!r:.80}")
                        if not grow:
                            continue
                        column = vocabulary[key] = len(vocabulary)
                    indices.append(column)
                    data.append(1.0)
            ends.append(len(indices))
            n_rows += 1
        offsets.append(n_rows)
    out = [np.frombuffer(a, dtype=dtype) if len(a) else np.zeros(0, dtype=dtype)
           for a, dtype in ((data, np.float64), (indices, np.int32), (ends, np.int64),
                            (offsets, np.int64))]
    return tuple(out)
