"""A tagger of columns by a model file of CRFsuite, without NumPy."""

from sksstruct.crfsuite._file import ModelFile
from sksstruct.crfsuite._scores import Scores
from sksstruct.feature_extraction._column_rules import expand, parse, usual
from sksstruct.utils._files import reading

# Beginnings of the names of the attributes that are made without a template.
_USUAL = "w[", "shape[", "w:prefix=", "w:suffix="


class ColumnTagger:
    """The model that ``sksstruct export --to crfsuite`` writes, applied to columns.

    Parameters
    ----------
    name : str
        Model file of CRFsuite.
    template : str or None
        Template of the training; None: the attributes of `ColumnFeatures()`.
    """

    def __init__(self, name, template):
        with reading(name, " is no model file of CRFsuite"), open(name, "rb") as file:
            self._model = ModelFile(file.read())
        self._rules = template and [parts for _, _, parts in parse(template)]
        begins = _USUAL if not template else tuple(parts[0] for parts in self._rules)
        model, begins = self._model, tuple(map(str.encode, begins))
        names = map(model.attribute, range(model.n_attributes))
        if not any(name.startswith(begins) for name in names):
            raise ValueError(
                f"{name} has no attribute that begins with "
                f"{b' or '.join(begins).decode()}: 'sksstruct train' did not make it, "
                "or with another --template. Files of other programs are for "
                "sksstruct.crfsuite.Tagger"
            )

    def predict(self, X):
        """Best labels of sentences.

        Parameters
        ----------
        X : list of tuple of list of str
            The columns of each sentence.

        Returns
        -------
        y : list of list of str
            Labels.
        """
        return [Scores(self._model, self._items(columns)).best() for columns in X]

    def _items(self, columns):
        """Return attributes of the tokens of a sentence, with marks of both ends."""
        if self._rules is None:
            return usual(columns)
        for _, column, _ in (part for parts in self._rules for part in parts[1::2]):
            if column >= len(columns):
                raise ValueError(
                    f"the template names column {column}, and the file has "
                    f"{len(columns)} columns, numbered from 0"
                )
        rows = expand(self._rules, columns)
        if rows:
            rows[0].append("__BOS__")
            rows[-1].append("__EOS__")
        return rows
