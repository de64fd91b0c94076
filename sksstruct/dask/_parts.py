"""Data in parts: Dask collections, lists of delayed parts, functions that read parts.

Every form is converted to tuples of arguments, one for each part, which may be futures
of data on the workers, and a function that turns the arguments into
``(X, y, sample_weight)`` on a worker. Data never pass through the client.
"""

from collections.abc import Callable, Sequence, Sized
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from dask.base import is_dask_collection
from dask.delayed import Delayed
from distributed import Future


@dataclass
class Shards:
    """Data that a function reads in parts, on the workers.

    Parameters
    ----------
    load : callable
        ``load(k)`` returns ``(X, y)`` or ``(X, y, sample_weight)`` of part k. For
        prediction it may return only ``X``. Workers call the function, possibly more
        than once for a part, and it must return the same data each time.
    n_shards : int
        Number of parts.

    Examples
    --------
    >>> from sksstruct.dask import Shards
    >>> from sksstruct.utils.packed import PackedSequences
    >>> def load(k):
    ...     return PackedSequences.open(f"/data/train-{k}", labels=True)
    >>> shards = Shards(load, 8)
    >>> shards.n_shards
    8
    """

    load: Callable
    n_shards: int

    def __post_init__(self):
        if not callable(self.load):
            raise TypeError(f"load must be a function of a number, got {self.load!r}")
        if not isinstance(self.n_shards, Integral) or self.n_shards < 1:
            raise ValueError(f"n_shards must be at least 1, got {self.n_shards!r}")


@dataclass
class Parts:
    """Data in parts: the arguments of each part, and a function that reads a part.

    Parameters
    ----------
    inputs : list of tuple
        Arguments of each part.
    read : callable
        ``read(*inputs)`` returns ``(X, y, sample_weight)``.
    """

    inputs: list
    read: Any

    def __len__(self):
        return len(self.inputs)


def as_parts(X, y, sample_weight, client):
    """Convert training data in any of the supported forms to `Parts`.

    Parameters
    ----------
    X, y, sample_weight : objects
        Arguments of `sksstruct.dask.DaskChainCRF.fit`.
    client : distributed.Client
        Client of the cluster.

    Returns
    -------
    parts : Parts
    """
    if isinstance(X, Shards):
        _refuse(y, sample_weight, "Shards")
        inputs = [(X.load, k) for k in range(X.n_shards)]
        return Parts(inputs, _read_shard)
    if is_dask_collection(X) and not isinstance(X, Delayed):
        if y is None:
            raise ValueError(
                "y must be a dask bag or array with the partitions of X, got None"
            )
        columns = [_delayed("X", X), _delayed("y", y)]
        if sample_weight is not None:
            columns.append(_delayed("sample_weight", sample_weight))
        for name, column in zip(("y", "sample_weight"), columns[1:], strict=False):
            if len(column) != len(columns[0]):
                raise ValueError(
                    f"{name} must have as many partitions as X, {len(columns[0])}, got "
                    f"{len(column)}: use repartition or rechunk"
                )
        futures = [client.compute(column) for column in columns]
        return Parts(list(zip(*futures, strict=True)), _read_columns)
    if isinstance(X, Sequence) and len(X) and all(map(_is_lazy, X)):
        _refuse(y, sample_weight, "a list of partitions (X_part, y_part)")
        futures = [x if isinstance(x, Future) else client.compute(x) for x in X]
        return Parts([(future,) for future in futures], _read_tuple)
    raise TypeError(
        f"X is a {type(X).__name__}: pass a dask bag of sequences, a dask array, a "
        "list of delayed partitions (X_part, y_part), or Shards(load, n_shards)"
    )


def _refuse(y, sample_weight, form):
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(f"{name} must be None if X is {form}, which has it")


def _is_lazy(value):
    return isinstance(value, Delayed | Future)


def _delayed(name, collection):
    """The partitions of a bag or of an array, as a list."""
    if not hasattr(collection, "to_delayed"):
        raise TypeError(
            f"{name} must be a dask bag or array, got a {type(collection).__name__}"
        )
    if getattr(collection, "ndim", 1) > 1 and any(
        size != 1 for size in collection.numblocks[1:]
    ):
        raise ValueError(
            f"{name} is split into {collection.numblocks} chunks: "
            "each chunk must contain whole rows, use rechunk"
        )
    parts = collection.to_delayed()
    return list(parts.ravel()) if hasattr(parts, "ravel") else list(parts)


# ---- on the workers ----


def _read_shard(load, number):
    return _read_tuple(load(number))


def _read_tuple(part):
    if not isinstance(part, tuple) or len(part) not in (2, 3):
        raise TypeError(
            "a part must be a tuple (X, y) or (X, y, sample_weight), got a "
            f"{type(part).__name__}"
        )
    return part if len(part) == 3 else (*part, None)


def _read_columns(X, y, sample_weight=None):
    return whole(X), whole(y), None if sample_weight is None else whole(sample_weight)


def n_rows(X):
    """Number of examples of a part."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def whole(part):
    """A partition with a length: an iterator of a bag becomes a list."""
    return part if isinstance(part, Sized) else list(part)
