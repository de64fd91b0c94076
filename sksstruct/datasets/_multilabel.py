"""Multilabel data of the Mulan collection."""

from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from sklearn.utils import Bunch

from sksstruct.datasets._fetch import find_file
from sksstruct.utils.typing import PathLike

# Number of features and number of labels of each data set.
_SETS = {
    "bibtex": (1836, 159),
    "corel5k": (499, 374),
    "emotions": (72, 6),
    "medical": (1449, 45),
    "rcv1sub1": (47236, 101),
    "scene": (294, 6),
    "yeast": (103, 14),
}


def load_multilabel(
    name: Literal[
        "bibtex", "corel5k", "emotions", "medical", "rcv1sub1", "scene", "yeast"
    ],
    subset: Literal["train", "test"] = "train",
    *,
    data_home: PathLike | None = None,
) -> Bunch:
    """Load one of seven multilabel data sets, in its published split.

    The file is ``multilabel/<name>_<subset>.svm.gz`` in the data folder, in svmlight
    format with labels separated by commas.

    Parameters
    ----------
    name : {"bibtex", "corel5k", "emotions", "medical", "rcv1sub1", "scene", "yeast"}
        Data set.
    subset : {"train", "test"}, default="train"
        Part to load.
    data_home : str or path-like, default=None
        Folder of the data; by default the environment variable ``SKSSTRUCT_DATA``, else
        ``~/sksstruct_data``.

    Returns
    -------
    data : Bunch
        ``X``, a CSR array of shape (n_samples, n_features), and ``y``, an indicator of
        shape (n_samples, n_labels).

    Raises
    ------
    OSError
        If the file is missing; it cannot be fetched.

    Notes
    -----
    The two files of rcv1sub1 number labels differently: label k of the test file is
    label k + 1 of the training file, as label frequencies and the scores of classifiers
    show. Both parts of y have the numbers of the training file, without its first
    label, which the test file lacks: 100 labels remain.

    Examples
    --------
    >>> from sksstruct.datasets import load_multilabel
    >>> data = load_multilabel("yeast")  # doctest: +SKIP
    >>> data.X.shape, data.y.shape  # doctest: +SKIP
    ((1500, 103), (1500, 14))
    """
    if name not in _SETS:
        raise ValueError(f"name must be one of {sorted(_SETS)}, got {name!r}")
    if subset not in ("train", "test"):
        raise ValueError(f"subset must be 'train' or 'test', got {subset!r}")
    path = find_file(f"multilabel/{name}_{subset}.svm.gz", data_home)
    n_features, n_labels = _SETS[name]
    X, labels = load_svmlight_file(
        str(path), n_features=n_features, multilabel=True, zero_based=False
    )
    y = np.zeros((len(labels), n_labels), dtype=np.int64)
    for i, row in enumerate(labels):
        y[i, np.asarray(row, dtype=np.intp)] = 1
    if name == "rcv1sub1":
        y = y[:, 1:] if subset == "train" else y[:, :-1]
    X = sparse.csr_array(X)
    # some packages only take 32-bit indices
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return Bunch(X=X, y=y)
