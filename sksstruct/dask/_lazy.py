"""Lazy application of fitted estimators to data in parts."""

from typing import Any

import numpy as np
from dask.base import is_dask_collection
from dask.delayed import Delayed, delayed
from sklearn.base import BaseEstimator

from sksstruct.dask._parts import Shards, _is_lazy, whole


def apply(
    estimator: BaseEstimator,
    X: Any,
    method: str = "predict",
    *,
    meta: np.ndarray | None = None,
) -> Any:
    """Call a method of a fitted estimator for each partition, lazily.

    Any estimator can be used, for example a `sksstruct.LPMAPPredictor` for a bag of
    factor graphs, or a transformer with ``method="transform"``.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator, or an unfitted one if the method does not need a fit.
    X : dask bag or array, list of delayed, or Shards
        Inputs of the method.
    method : str, default="predict"
        Name of the method.
    meta : ndarray, default=None
        For a dask array, an empty array with the dtype and the number of axes of the
        results. None: the method is called on a row of zeros.

    Returns
    -------
    results : dask bag or array, or list of delayed
        Results in the same partitions, in the form of X.

    Examples
    --------
    >>> import dask.bag as db
    >>> from sksstruct import LPMAPPredictor
    >>> from sksstruct.dask import apply
    >>> from sksstruct.factor_graphs import FactorGraph
    >>> graphs = [FactorGraph([[0.0, score]]) for score in (1.0, -1.0)]
    >>> labelings = apply(LPMAPPredictor(), db.from_sequence(graphs))
    >>> [y.tolist() for y in labelings.compute(scheduler="sync")]
    [[1], [0]]
    """
    if isinstance(X, Shards):
        part = delayed(_of_shard)
        return [part(delayed(estimator), method, X.load, k) for k in range(X.n_shards)]
    if isinstance(X, list | tuple) and all(map(_is_lazy, X)):
        part = delayed(_of_part)
        return [part(delayed(estimator), method, each) for each in X]
    if not is_dask_collection(X) or isinstance(X, Delayed):
        raise TypeError(
            f"X is a {type(X).__name__}: pass a dask bag or array, a list of delayed "
            "partitions, or Shards(load, n_shards)"
        )
    if hasattr(X, "map_partitions"):
        return X.map_partitions(_of_bag, delayed(estimator), method)
    return _of_array(estimator, X, method, meta)


def _of_array(estimator, X, method, meta):
    import dask.array as da

    if X.ndim != 2:
        raise ValueError(f"X must be a 2-D dask array, got {X.ndim}-D")
    if X.numblocks[1] != 1:
        raise ValueError(
            f"X is split into {X.numblocks} chunks: each chunk must contain whole "
            "rows, use rechunk"
        )
    if meta is None:
        # the type and the shape of the results are unknown before a call: call the
        # method on a row of zeros
        meta = np.asarray(getattr(estimator, method)(np.zeros((1, X.shape[1]))))
    parts = [
        da.from_delayed(
            delayed(_of_part)(delayed(estimator), method, each),
            (rows, *meta.shape[1:]),
            dtype=meta.dtype,
        )
        for each, rows in zip(X.to_delayed().ravel(), X.chunks[0], strict=True)
    ]
    return da.concatenate(parts, axis=0)


# ---- on the workers ----


def inputs_of(part):
    """X of a part, which may also have y and weights."""
    return part[0] if isinstance(part, tuple) else part


def _of_part(estimator, method, part):
    return getattr(estimator, method)(inputs_of(part))


def _of_shard(estimator, method, load, number):
    return _of_part(estimator, method, load(number))


def _of_bag(part, estimator, method):
    part = whole(part)
    return getattr(estimator, method)(part) if len(part) else []
