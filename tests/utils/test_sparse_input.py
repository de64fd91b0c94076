"""Broken sparse matrices, which SciPy makes and converts without a look."""

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF, LinearSSVC, MultilabelPairwise, SSVMClassifier
from sksstruct.models import GraphModel
from sksstruct.utils.sparse_input import sound_csr

FORMATS = ["csr", "csc", "coo", "bsr", "dia", "dok", "lil"]


def broken(indices=(0, 1, 2), indptr=(0, 1, 2, 3), kind=np.int32, cls=sparse.csr_array):
    """A 3 x 3 matrix of three entries, whose arrays are replaced afterwards."""
    X = cls(np.eye(3))
    X.indices, X.indptr = np.array(indices, dtype=kind), np.array(indptr, dtype=kind)
    return X


BROKEN = {
    "pointers that fall": (broken(indptr=(0, 10**7, 2, 3)), "decreases after row 1"),
    "pointers beyond the end": (broken(indptr=(0, 1, 2, 9)), "at most 3"),
    "a start that is not 0": (broken(indptr=(-5, 1, 2, 3)), "from 0 to"),
    "too few pointers": (broken(indptr=(0, 1, 3)), "must have 4 entries"),
    "a column beyond the end": (broken((0, 10**8, 2)), "column index 100000000, but 3"),
    "the first column beyond the end": (broken((0, 3, 2)), "column index 3, but 3"),
    "a negative column": (broken((0, -3, 2)), "column index -3, but 3 columns"),
    "a column of 64 bits": (
        broken((0, 2**32 + 1, 2), kind=np.int64),
        "column index 4294967297, but 3",
    ),
}


def estimators():
    y = [0, 1, 0]
    return {
        "LinearSSVC": (LinearSSVC(), lambda X: X, y),
        "multiclass": (SSVMClassifier("multiclass"), lambda X: X, y),
        "MultilabelPairwise": (
            MultilabelPairwise(),
            lambda X: X,
            [[0, 1], [1, 0], [1, 1]],
        ),
        "ChainCRF": (ChainCRF(), lambda X: [sparse.csr_array(np.eye(3)), X], [y, y]),
        "GraphModel": (
            SSVMClassifier(GraphModel(), alpha=0.1),
            lambda X: [(X, [[0, 1], [1, 2]])] * 2,
            [y, y],
        ),
    }


@pytest.mark.parametrize("name", list(estimators()))
@pytest.mark.parametrize("case", list(BROKEN))
def test_estimators_name_what_is_broken(name, case):
    X, message = BROKEN[case]
    estimator, given, y = estimators()[name]
    with pytest.raises(ValueError, match=message):
        estimator.fit(given(X), y)
    estimator.set_params(tol=1.0).fit(given(sparse.csr_array(np.eye(3))), y)
    with pytest.raises(ValueError, match=message):
        estimator.predict(given(X))


@pytest.mark.parametrize("name", list(estimators()))
def test_indices_of_64_bits(name):
    """SciPy makes them where it does not look for the largest one."""
    estimator, given, y = estimators()[name]
    wide = broken(kind=np.int64)
    estimator.set_params(random_state=0)
    first = estimator.fit(given(wide), y).predict(given(wide))
    again = estimator.fit(given(broken()), y).predict(given(broken()))
    np.testing.assert_array_equal(np.ravel(first[0]), np.ravel(again[0]))
    assert wide.indices.dtype == np.int64


@pytest.mark.parametrize("container", [sparse.csc_array, sparse.coo_array])
def test_labels_that_are_broken(container):
    y = container(np.array([[0, 1], [1, 0], [1, 1]]))
    if y.format == "coo":
        y.col = y.col + 5
    else:
        y.indices[0] = 10**6
    with pytest.raises(ValueError, match=r"y has the (row|column) index"):
        MultilabelPairwise().fit(np.eye(3), y)


@pytest.mark.parametrize("form", FORMATS)
def test_all_formats(form):
    dense = np.array([[0.0, 1.5, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    found = sound_csr(sparse.csr_array(dense).asformat(form))
    assert found.format == "csr" and found.indices.dtype == np.int32
    np.testing.assert_array_equal(found.toarray(), dense)


def test_broken_blocks_and_columns():
    blocks = sparse.bsr_array(np.eye(4), blocksize=(2, 2))
    blocks.indices[1] = 2
    with pytest.raises(ValueError, match="column index 2, but 2 columns"):
        sound_csr(blocks)
    with pytest.raises(ValueError, match="decreases after column 1"):
        sound_csr(broken(indptr=(0, 2, 1, 3), cls=sparse.csc_array))


def test_what_is_sound_is_returned_as_it_is():
    X = sparse.csr_array(np.eye(3))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    assert sound_csr(X) is X
