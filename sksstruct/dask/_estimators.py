"""The estimators of the library, trained on data that are spread over a cluster."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sksstruct.dask._client import OnCluster
from sksstruct.dask._lazy import apply
from sksstruct.dask._parts import as_parts
from sksstruct.dask._train import train
from sksstruct.dask._validation import score_parts
from sksstruct.estimators.chain_crf import ChainCRF
from sksstruct.estimators.multilabel import MultilabelPairwise
from sksstruct.estimators.segment_crf import SegmentCRF
from sksstruct.estimators.ssvm import SSVMClassifier
from sksstruct.models.segments.inputs import SegmentInputs
from sksstruct.utils._doc import fill_doc, section
from sksstruct.utils.callbacks import with_callbacks

_TEXTS = {
    "client": """
client : distributed.Client or None, default=None
    Client of the cluster. None: the client that was created last.
""",
    "data": """
X : dask bag or array, list of delayed, or Shards
    Inputs in parts: a bag of sequences, an array whose chunks are whole rows, a list of
    delayed tuples ``(X_part, y_part)`` or ``(X_part, y_part, sample_weight_part)``, or
    `Shards` with a function that reads a part. Each part is a block in training.
    Results depend on the parts, but not on the cluster.
y : dask bag or array, default=None
    Outputs in the same parts; None with delayed tuples and `Shards`, whose parts have
    outputs.
sample_weight : dask bag or array, default=None
    Weights in the same parts.
""",
    "inputs": """
X : dask bag or array, list of delayed, or Shards
    Inputs in parts.
""",
}


@fill_doc(_TEXTS)
class Distributed(OnCluster):
    """Mixin with `fit`, prediction and scores for data in parts on a cluster.

    Class attributes
    ----------------
    _noun : str
        Kind of estimator in messages.
    """

    _noun = "classifier"
    # values of these parameters for estimators that do not have them
    early_stopping = warm_start = False
    l1_ratio = 0.0

    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train on data in parts.

        Parameters
        ----------
        %(data)s

        Returns
        -------
        self : estimator
            The fitted estimator.
        """
        if self.warm_start:
            raise ValueError(
                "warm_start=True needs all dual variables in one place; to continue "
                "a run on a cluster, use Partitioned(checkpoint=, resume=True)"
            )
        return train(self, X, y, sample_weight, self._noun)

    def predict(self, X: Any) -> Any:
        """Predict outputs of each part, lazily.

        Parameters
        ----------
        %(inputs)s

        Returns
        -------
        y : dask bag or array, or list of delayed
            Outputs in the same parts, in the form of X.
        """
        check_is_fitted(self)
        return apply(self.to_local(), X, "predict")

    def predict_proba(self, X: Any) -> Any:
        """Probabilities of each part, lazily; only with ``loss="log"``.

        Parameters
        ----------
        %(inputs)s

        Returns
        -------
        probabilities : dask bag or array, or list of delayed
            Probabilities in the same parts, in the form of X.
        """
        check_is_fitted(self)
        local = self.to_local()
        # raise the error of a missing predict_proba here, and not on a worker
        local.predict_proba  # noqa: B018
        return apply(local, X, "predict_proba")

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean over the parts of the `score` of the local estimator, weighted by size.

        Parameters
        ----------
        %(data)s

        Returns
        -------
        score : float
            Mean of the scores of the parts, weighted by the size of the parts.
        """
        check_is_fitted(self)
        client = self._client()
        parts = as_parts(X, y, sample_weight, client)
        return score_parts(client, self.to_local(), self._size, parts)


def _n_positions(X, y, sample_weight):
    """Total weight of the positions of a part whose labels are known."""
    return _n_known([len(row) for row in y], y, sample_weight)


def _n_rows(X, y, sample_weight):
    """Total weight of the positions with known labels of a part; X has the lengths."""
    return _n_known(SegmentInputs.read(X).packed.lengths, y, sample_weight)


def _n_known(lengths, y, sample_weight):
    missing = [sum(label is None for label in row) for row in y]
    counts = np.subtract(lengths, missing, dtype=np.float64)
    return float(counts.sum() if sample_weight is None else counts @ sample_weight)


def _n_samples(X, y, sample_weight):
    """Total weight of the samples of a part."""
    return float(len(y) if sample_weight is None else np.sum(sample_weight))


@fill_doc({**_TEXTS, "parameters": section(ChainCRF, "Parameters")})
@dataclass(eq=False, repr=False)
class DaskChainCRF(Distributed, ChainCRF):  # type: ignore[misc]
    """`sksstruct.ChainCRF`, trained on data that are spread over a cluster.

    Each part of the data is a block of `sksstruct.solvers.Partitioned`, and stays on
    its worker. The result is bit-for-bit the same for any number of workers, even if
    workers are lost. All labels must be known, except with `LBFGS`.

    Parameters
    ----------
    %(parameters)s
    %(client)s

    See Also
    --------
    sksstruct.solvers.Partitioned : The solver and its options.

    Notes
    -----
    `solver` is "auto", "partitioned", or the name or an object of `BCFW`, `SDCA`,
    `LBFGS` or `Partitioned`.
    `score_function`, `warm_start` and, except with `LBFGS`, missing labels need all
    data in one place, and raise an error. `early_stopping` holds out whole parts, at
    least one. Parts are read three times with `transition_features` or ``order=2``, or
    if weights exist only for observed combinations.

    Examples
    --------
    >>> import dask.bag as db
    >>> from distributed import Client
    >>> from sksstruct.dask import DaskChainCRF
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [["off", "on"], ["on", "off"]]
    >>> X, y = (db.from_sequence(data, npartitions=2) for data in (X, y))
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     tagger = DaskChainCRF(random_state=0, client=client).fit(X, y)
    >>> tagger.to_local().predict([[[1.0], [1.0]]])[0].tolist()
    ['on', 'on']
    """

    _local, _noun, _size = ChainCRF, "tagger", staticmethod(_n_positions)


@fill_doc({**_TEXTS, "parameters": section(SSVMClassifier, "Parameters")})
@dataclass(eq=False, repr=False)
class DaskSSVMClassifier(Distributed, SSVMClassifier):
    """`sksstruct.SSVMClassifier`, trained on data that are spread over a cluster.

    Each part of the data is read for facts such as its classes, which are merged.
    Models whose facts cannot be merged raise an error:
    `sksstruct.models.RelaxedGraphModel`, and `sksstruct.models.PartsModel` with more
    than one type of displacement. If you write your own model, its `prepare` must give
    the same result for all parts.

    Parameters
    ----------
    %(parameters)s
    %(client)s

    See Also
    --------
    sksstruct.solvers.Partitioned : The solver and its options.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from sksstruct.dask import DaskSSVMClassifier
    >>> X = da.from_array(np.array([[-2.0], [1.0], [-1.0], [2.0]]), chunks=(2, 1))
    >>> y = da.from_array(np.array(["low", "high", "low", "high"]), chunks=2)
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     classifier = DaskSSVMClassifier(random_state=0, client=client).fit(X, y)
    >>> classifier.to_local().predict([[3.0]]).tolist()
    ['high']
    """

    _local, _size = SSVMClassifier, staticmethod(_n_samples)

    def _model(self):
        if self.score_function is not None:
            raise ValueError(
                "score_function cannot be trained on data in parts: use SSVMClassifier"
            )
        model = super()._model()
        if self.class_weight is not None:
            model._class_weight = self.class_weight
        return model


@fill_doc({**_TEXTS, "parameters": section(SegmentCRF, "Parameters")})
@dataclass(eq=False, repr=False)
class DaskSegmentCRF(Distributed, SegmentCRF):  # type: ignore[misc]
    """`sksstruct.SegmentCRF`, trained on data that are spread over a cluster.

    The labels, and the largest length of the segments of each label, are learned from
    all parts.

    Parameters
    ----------
    %(parameters)s
    %(client)s

    See Also
    --------
    sksstruct.solvers.Partitioned : The solver and its options.

    Examples
    --------
    >>> import dask.bag as db
    >>> from distributed import Client
    >>> from sksstruct.dask import DaskSegmentCRF
    >>> X, y = [[[0.0], [1.0]], [[1.0], [0.0]]], [[(1, 2, "on")], [(0, 1, "on")]]
    >>> X, y = (db.from_sequence(data, npartitions=2) for data in (X, y))
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     tagger = DaskSegmentCRF(random_state=0, client=client).fit(X, y)
    >>> tagger.to_local().predict([[[1.0], [0.0]]])[0]
    [(0, 1, 'on')]
    """

    _local, _noun, _size = SegmentCRF, "tagger", staticmethod(_n_rows)


@fill_doc({**_TEXTS, "parameters": section(MultilabelPairwise, "Parameters")})
@dataclass(eq=False, repr=False)
class DaskMultilabelPairwise(Distributed, MultilabelPairwise):
    """`sksstruct.MultilabelPairwise`, trained on data that are spread over a cluster.

    Only ``loss="structured_hinge"`` is supported, with few enough labels to enumerate
    their sets, and with a number for `interaction_scaling`: other options need all data
    in one place. y must be a label indicator.

    Parameters
    ----------
    %(parameters)s
    %(client)s

    See Also
    --------
    sksstruct.solvers.Partitioned : The solver and its options.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> from sksstruct.dask import DaskMultilabelPairwise
    >>> X = da.from_array(np.array([[-1.0], [1.0], [-1.0], [1.0]]), chunks=(2, 1))
    >>> y = da.from_array(np.array([[1, 0], [0, 1], [1, 0], [0, 1]]), chunks=(2, 2))
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     classifier = DaskMultilabelPairwise(
    ...         loss="structured_hinge", interaction_scaling=1.0, random_state=0,
    ...         client=client,
    ...     ).fit(X, y)
    >>> classifier.to_local().predict([[1.0]]).tolist()
    [[0, 1]]
    """

    _local, _size = MultilabelPairwise, staticmethod(_n_samples)
