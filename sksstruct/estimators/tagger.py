"""A tagger of dicts and strings: a vectorizer and a chain in one estimator."""

import os
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._carried import set_fitted
from sksstruct.estimators._crfsuite_format import read_model
from sksstruct.estimators._crfsuite_model import weights_of
from sksstruct.estimators._export import Exported
from sksstruct.estimators._tagger_methods import TaggerMethods
from sksstruct.estimators.chain_crf import ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.typing import Items, Labelings, PathLike


class Tagger(TaggerMethods, Exported, Pipeline):
    """Pipeline whose last step is a tagger, with the tagger's methods.

    In addition to the methods of `sklearn.pipeline.Pipeline`, a `Tagger` has
    `predict_topk`, `predict_marginals`, `predict_entities`, `predict_segments`,
    `log_proba`, `entropy`, `explain` and the weights by name. Create a `Tagger` with
    `make_tagger`, or like any pipeline.

    Parameters
    ----------
    steps : list of tuple of (str, estimator)
        Transformers of sequences, and a `ChainCRF` or a `SegmentCRF`.
    transform_input, memory, verbose : object
        As in `sklearn.pipeline.Pipeline`.

    See Also
    --------
    make_tagger : Tagger of dicts and strings with default names of the steps.

    Notes
    -----
    `predict` and the other methods pass constraints such as ``known`` to the last step.
    For other attributes, access the steps: ``tagger[-1].dual_gap_``.

    Any number of threads may predict with one fitted tagger at the same time: only
    `fit`, `prune`, and methods of the steps that work in place change the tagger.

    Examples
    --------
    >>> from sksstruct import ChainCRF, Tagger
    >>> from sksstruct.feature_extraction import SequenceVectorizer
    >>> tagger = Tagger([("features", SequenceVectorizer()), ("crf", ChainCRF())])
    >>> X = [[{"w": "he"}, {"w": "ran"}], [{"w": "she"}, {"w": "ran"}]]
    >>> tagger = tagger.fit(X, [["PRP", "VBD"], ["PRP", "VBD"]])
    >>> labelings, scores = tagger.predict_topk([[{"w": "he"}, {"w": "ran"}]], 2)
    >>> labelings[0][0].tolist()
    ['PRP', 'VBD']
    """

    if TYPE_CHECKING:
        # annotations of methods of Pipeline, which scikit-learn does not annotate

        def fit(self, X: Items, y: Labelings, **params: Any) -> Self: ...

        def score(self, X: Items, y: Labelings, **params: Any) -> float: ...

    def predict(self, X: Items, **params: Any) -> np.ndarray:
        """Best labeling of each sequence.

        Parameters
        ----------
        X : list of sequences
            Input of the first step.
        **params : dict
            Constraints, as for `ChainCRF.predict`.

        Returns
        -------
        y : ndarray of shape (n_sequences,), of ndarrays of shape (n_positions,)
            Labels.
        """
        if params:
            return super().predict(X, **params)
        # Without params there is no metadata to route, and each step checks that it is
        # fitted. Pipeline.predict collects the tags of all steps first, which takes
        # longer than decoding a sentence.
        return self.steps[-1][1].predict(self._transformed(X))

    def _answering(self):
        return self[-1]

    def _answer(self, name, X, *args, **params):
        return getattr(self[-1], name)(self._transformed(X), *args, **params)

    def _transformed(self, X):
        """The output of the transformers, which is the input of the last step."""
        for _, step in self.steps[:-1]:
            if step not in (None, "passthrough"):
                X = step.transform(X)
        return X

    def prune(self, threshold: float = 0.0) -> Self:
        """Drop features with small weights from the vocabulary, in place.

        The model becomes smaller, and predicts as fast as before. `ChainCRF.sparsify`
        instead keeps the vocabulary, and makes prediction slower.

        Parameters
        ----------
        threshold : float, default=0.0
            Features all of whose weights have an absolute value of at most `threshold`
            are dropped. The score of a labeling changes by at most `threshold` times
            the sum of the absolute features of the sequence, plus `threshold` times the
            sum over the features in `transition_features`. A labeling whose score is
            higher than that of every other labeling by more than twice this bound stays
            the best.

        Returns
        -------
        self : Tagger
            The fitted tagger. `objective_` and `dual_gap_` remain those of the fit with
            all features.

        Raises
        ------
        ValueError
            If the step before the last is not a `SequenceVectorizer`, or no feature
            would be left.
        """
        crf = self[-1]
        if not isinstance(crf, ChainCRF):
            raise ValueError(
                f"prune needs a ChainCRF as the last step, got {crf!r:.80}"
            )
        check_is_fitted(crf, "coef_")
        vectorizer = self.steps[-2][1] if len(self.steps) > 1 else None
        if (
            not isinstance(vectorizer, SequenceVectorizer)
            or vectorizer._names != crf._names_in
        ):
            raise ValueError(
                "prune needs a SequenceVectorizer as the step before the last, got "
                f"{vectorizer!r:.80}"
            )
        columns = crf._columns_above(threshold)
        if not len(columns):
            raise ValueError(
                f"threshold={threshold!r} would drop all features: it must be less "
                "than the largest weight"
            )
        crf._keep_columns(columns, vectorizer._keep_columns(columns))
        return self

    def _steps(self):
        return self.steps

    @classmethod
    def _of_steps(cls, steps, path):
        taggers = [k for k, (_, step) in enumerate(steps) if isinstance(step, ChainCRF)]
        if taggers != [len(steps) - 1]:
            raise ValueError(
                f"{path} is no tagger in JSON: the last step, and no other, must be a "
                "ChainCRF"
            )
        return cls(steps)

    @classmethod
    def from_crfsuite(
        cls,
        path: PathLike,
        *,
        separator: str = ":",
        first: str | None = None,
        last: str | None = None,
        n_sequences: int | None = None,
        **params: Any,
    ) -> Self:
        """Read a model file of CRFsuite into a fitted tagger.

        The tagger takes the data of python-crfsuite and sklearn-crfsuite, and predicts
        the same labels and probabilities. Labels are in the order of the file.

        Parameters
        ----------
        path : path-like
            The file, written by CRFsuite or by `to_crfsuite`.
        separator : str, default=":"
            Separator of names and values in the names of attributes, a parameter of
            `sksstruct.feature_extraction.SequenceVectorizer`. python-crfsuite and
            `to_crfsuite` join them by ":". If another program wrote the file, use its
            separator. The tagger warns if it knows nearly none of the attributes of its
            input.
        first, last : str, default=None
            Attributes whose weights become weights of the first and of the last label.
            For a file that `to_crfsuite` wrote with such weights, "__BOS__" and
            "__EOS__": the items then do not need the attributes.
        n_sequences : int, default=None
            Number of sequences on which the model was trained, which files do not have.
            `ChainCRF.partial_fit` needs this number, and ``loss="hinge"``.
        **params : dict
            Parameters of `ChainCRF` for further training. Defaults are those of
            CRFsuite: ``loss="log"``, ``solver="lbfgs"``, ``fit_intercept=False``,
            ``boundary=False`` (without `first` and `last`) and
            ``intercept_scaling=1.0``.

        Returns
        -------
        tagger : Tagger
            Pipeline of a vectorizer, whose `counts_` are zero, and a `ChainCRF`. With
            ``warm_start=True`` and the solver "lbfgs", ``fit`` starts from the weights
            of the file, matched by the names of features and labels.

        Raises
        ------
        ValueError
            If the file is not a model of CRFsuite, or is damaged. The message says
            where.

        Examples
        --------
        >>> from sksstruct import Tagger, make_tagger
        >>> X = [[{"w": "he"}, {"w": "ran"}], [{"w": "she"}, {"w": "ran"}]]
        >>> tagger = make_tagger(loss="log").fit(X, [["PRP", "VBD"], ["PRP", "VBD"]])
        >>> tagger.to_crfsuite("tagger.crfsuite")
        >>> again = Tagger.from_crfsuite(
        ...     "tagger.crfsuite", first="__BOS__", last="__EOS__"
        ... )
        >>> again.predict(X)[0].tolist()
        ['PRP', 'VBD']
        """
        if n_sequences is not None and (
            not isinstance(n_sequences, Real) or n_sequences <= 0
        ):
            raise ValueError(f"n_sequences must be positive, got {n_sequences!r}")
        model = read_model(path)
        attributes = weights_of(model, os.path.getsize(path), first, last)
        forbidden = attributes["forbidden_transitions_"] or None
        options = {
            "loss": "log",
            "solver": "lbfgs",
            "fit_intercept": False,
            "boundary": first is not None or last is not None,
            "intercept_scaling": 1.0,
            "forbidden_transitions": forbidden,
        }
        crf = ChainCRF(**options | params)
        vectorizer = SequenceVectorizer(separator=separator)
        validate_params(crf)
        validate_params(vectorizer)
        if n_sequences is not None:
            attributes["n_seen_"] = float(n_sequences)
        set_fitted(crf, attributes | {"_loss": crf.loss})
        names = attributes["_names_in"]
        counts = np.zeros(len(names), int)
        vectorizer._restore({"counts_": counts, "_names": names})
        return cls(make_pipeline(vectorizer, crf).steps)

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """dict: the nonzero weights of pairs (feature, label)."""
        return self[-1].state_features_

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """dict: weight of each pair of labels (from, to)."""
        return self[-1].transition_features_

    @property
    def pair_features_(self) -> dict[tuple[Any, Any, Any], float]:
        """dict: weights of triples (feature, from, to), with `transition_features`."""
        return self[-1].pair_features_

    @property
    def triple_features_(self) -> dict[tuple[Any, Any, Any], float]:
        """dict: weights of three consecutive labels, with ``order=2``."""
        return self[-1].triple_features_


def make_tagger(*transformers: BaseEstimator, **params: Any) -> Tagger:
    """Tagger that takes dicts or strings: a vectorizer and a `ChainCRF`.

    Parameters
    ----------
    *transformers : transformers
        The steps before the `ChainCRF`; the last transformer returns rows of features.
        Without arguments, a `sksstruct.feature_extraction.SequenceVectorizer` with its
        defaults.
    **params : dict
        Parameters of `ChainCRF`.

    Returns
    -------
    tagger : Tagger
        Pipeline whose steps have the names of `sklearn.pipeline.make_pipeline`, such as
        ``"sequencevectorizer"`` and ``"chaincrf"``.

    Examples
    --------
    >>> from sksstruct import make_tagger
    >>> X = [[{"w": "he"}, {"w": "ran"}], [["w=ran"], ["w=he"]]]
    >>> y = [["PRP", "VBD"], ["VBD", "PRP"]]
    >>> tagger = make_tagger(alpha=0.01, loss="log").fit(X, y)
    >>> tagger.predict([[{"w": "he"}]])[0].tolist()
    ['PRP']
    >>> tagger.state_features_["w=he", "PRP"] > 0.1
    True
    """
    transformers = transformers or (SequenceVectorizer(),)
    return Tagger(make_pipeline(*transformers, ChainCRF(**params)).steps)
