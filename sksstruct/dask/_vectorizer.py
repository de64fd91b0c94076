"""A vectorizer of bags: one vocabulary for all partitions."""

from dataclasses import dataclass
from typing import Any, Self

from dask.delayed import delayed
from sklearn.base import clone

from sksstruct.dask._client import OnCluster
from sksstruct.dask._lazy import apply
from sksstruct.dask._parts import whole
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.utils._doc import fill_doc, section

# Number of partitions whose vocabularies one task merges.
_MERGED = 8


@fill_doc({"parameters": section(SequenceVectorizer, "Parameters")})
@dataclass(eq=False, repr=False)
class DaskSequenceVectorizer(OnCluster, SequenceVectorizer, auto_wrap_output_keys=None):
    """Feature rows from bags of sequences, with one vocabulary for all of them.

    The vocabularies of the partitions are merged in a tree. The columns are those of a
    `SequenceVectorizer` fitted to all sequences in order.

    Parameters
    ----------
    %(parameters)s
    client : distributed.Client or None, default=None
        Client of the cluster. None: the client that was created last.

    See Also
    --------
    sksstruct.feature_extraction.SequenceHasher : Needs no pass over the data; use it
        with `apply`.

    Examples
    --------
    >>> import dask.bag as db
    >>> from distributed import Client
    >>> from sksstruct.dask import DaskSequenceVectorizer
    >>> sentences = [[{"w": "he"}, {"w": "ran"}], [{"w": "she"}, {"w": "ran"}]]
    >>> with Client(processes=False, dashboard_address=None) as client:
    ...     bag = db.from_sequence(sentences, npartitions=2)
    ...     vectorizer = DaskSequenceVectorizer(client=client).fit(bag)
    >>> vectorizer.to_local().get_feature_names_out().tolist()
    ['w=he', 'w=ran', 'w=she']
    """

    _local = SequenceVectorizer

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn the features that occur.

        Parameters
        ----------
        X : dask bag of sequences of {mapping, iterable of str}
            Sequences.
        y : None
            Ignored.

        Returns
        -------
        self : DaskSequenceVectorizer
            The fitted transformer.
        """
        self._check_parameters()
        part = clone(self.to_local()).set_params(min_count=1)
        nodes = [delayed(_fit)(part, each) for each in X.to_delayed()]
        while len(nodes) > 1:
            nodes = [
                delayed(_merge)(part, nodes[k : k + _MERGED])
                for k in range(0, len(nodes), _MERGED)
            ]
        merged = self._client().compute(nodes[0]).result()
        if merged is None:
            raise ValueError(
                "X has no features: its positions must be dicts or lists of strings "
                "that are not all empty"
            )
        return self.merge([merged])

    def fit_transform(self, X: Any, y: object = None) -> Any:
        """Learn the features that occur and transform X.

        Parameters
        ----------
        X : dask bag of sequences of {mapping, iterable of str}
            Sequences.
        y : None
            Ignored.

        Returns
        -------
        X_new : dask bag
            A `PackedSequences` in each partition.
        """
        return self.fit(X).transform(X)

    def transform(self, X: Any) -> Any:
        """Transform sequences lazily; features not seen in fit are left out.

        Parameters
        ----------
        X : dask bag of sequences of {mapping, iterable of str}
            Sequences.

        Returns
        -------
        X_new : dask bag
            A `PackedSequences` in each partition.
        """
        return apply(self.to_local(), X, "transform")


# ---- on the workers ----


def _fit(vectorizer, part):
    """A vectorizer fitted to a partition, or None if it has no features."""
    part = whole(part)
    if not any(len(features) for sequence in part for features in sequence):
        return None
    return clone(vectorizer).fit(part)


def _merge(vectorizer, parts):
    parts = [each for each in parts if each is not None]
    return clone(vectorizer).merge(parts) if parts else None
