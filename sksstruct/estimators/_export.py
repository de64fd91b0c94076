"""Taggers as files that other programs and languages read."""

from typing import Any, Self

from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._crfsuite_format import write_model
from sksstruct.estimators._crfsuite_model import CRFsuiteWeights
from sksstruct.estimators._json import read_json, write_json
from sksstruct.utils._doc import fill_doc
from sksstruct.utils._names import FeatureNames
from sksstruct.utils.typing import Items, PathLike

_MARKS = """
first, last : str, default="__BOS__" and "__EOS__"
    Names of the attributes that hold the weights of the first and of the last label.
    `sksstruct.feature_extraction.window_features` makes attributes of the same names:
    their weights are added.
"""


@fill_doc({"marks": _MARKS})
class Exported:
    """Methods that write a fitted tagger to a file, and read it again."""

    def _steps(self):
        """The steps of a pipeline, or the tagger as the only one."""
        return [(type(self).__name__.lower(), self)]

    def _crfsuite(self, first, last):
        crf = self._steps()[-1][1]
        if "_names_in" not in dir(crf):
            raise ValueError(f"CRFsuite has no weights of a {type(crf).__name__}")
        check_is_fitted(crf, "coef_")
        names = crf._names_in
        # a tagger fitted to rows on disk has names without spellings: take the names of
        # a vectorizer, which has the same names with spellings
        for _, step in self._steps():
            own = getattr(step, "_names", None)
            names = own if isinstance(own, FeatureNames) and own == names else names
        return CRFsuiteWeights(crf, names, first, last)

    def to_crfsuite(
        self, path: PathLike, *, first: str = "__BOS__", last: str = "__EOS__"
    ) -> None:
        """Write the model in the binary format of CRFsuite.

        CRFsuite, and its bindings in other languages, then find the same labels and
        probabilities. CRFsuite has neither biases nor weights of the first and last
        label. The bias is added to the weights of pairs of labels. If the tagger has a
        bias or weights of first or last labels, the first item of each sequence needs
        the attribute `first`, and the last item the attribute `last`, both with the
        value 1; `crfsuite_items` adds these attributes. A forbidden pair of labels has
        the weight -1e30.

        The attributes have the names that python-crfsuite gives to the features of the
        same items: ``w:a`` for ``{"w": "a"}``, and ``w=a`` for the string "w=a" in a
        list, with any separator of the vectorizer. If a feature may have several of
        these forms in the training data, it has several attributes with the same
        weights. If a tagger was trained without a vectorizer, attributes have the names
        of its features.

        Parameters
        ----------
        path : path-like
            File to write.
        %(marks)s

        Raises
        ------
        ValueError
            If the features have no names, two of them have the same name in CRFsuite,
            labels are not strings, or the tagger has `transition_features`, ``order=2``
            or a `score_function`, which CRFsuite does not have.
        """
        write_model(path, self._crfsuite(first, last).model())

    def crfsuite_items(
        self, X: Items, *, first: str = "__BOS__", last: str = "__EOS__"
    ) -> list[list[dict[str, float]]]:
        """Attributes that CRFsuite needs to label sequences with an exported model.

        Parameters
        ----------
        X : list of sequences
            Sequences, as for `predict`.
        %(marks)s

        Returns
        -------
        items : list of list of dict
            For each position the names of the attributes and their values, as
            python-crfsuite and sklearn-crfsuite take them.

        Raises
        ------
        ValueError
            If a feature has the name of a mark and is not 1 at exactly that position.
        """
        return self._crfsuite(first, last).items(self._transformed(X))

    def _transformed(self, X):
        return X

    def to_json(self, path: PathLike) -> None:
        """Write the tagger as JSON, which is safe to load.

        The file has all values that `predict`, `predict_proba` and the other methods
        need, to the last bit. It does not have `objective_`, `dual_gap_` and `history_`
        of the fit, nor `memory` of a pipeline. :doc:`/how_to/deploy` describes the
        format.

        Parameters
        ----------
        path : path-like
            File to write; compressed if its name ends with ".gz".

        Raises
        ------
        ValueError
            If a step is none of `SequenceVectorizer`, `SequenceHasher`,
            `ColumnFeatures` and `ChainCRF`, or a parameter is not one that JSON can
            hold: a `score_function`, or a loss or solver that is not given by its name.
        """
        write_json(path, self._steps())

    @classmethod
    def from_json(cls, path: PathLike) -> Self:
        """Read a tagger that `to_json` wrote.

        The file has no code that could run. Every value is checked.

        Parameters
        ----------
        path : path-like
            The file; decompressed if its name ends with ".gz".

        Returns
        -------
        tagger : Tagger or ChainCRF
            The fitted tagger.

        Raises
        ------
        ValueError
            If the file is not valid, for instance if a number is infinite or of the
            wrong type. The message says where.
        """
        return cls._of_steps(read_json(path), path)

    @classmethod
    def _of_steps(cls, steps: list[tuple[str, Any]], path: PathLike) -> Self:
        if len(steps) != 1 or type(steps[0][1]).__name__ != cls.__name__:
            raise ValueError(
                f"{path} has the steps {[name for name, _ in steps]!r:.80}, not only "
                f"a {cls.__name__}: read it with Tagger.from_json"
            )
        return steps[0][1]
