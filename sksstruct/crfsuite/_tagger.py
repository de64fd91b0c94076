"""Tagger and sequences of items, with the methods of python-crfsuite."""

import contextlib
import os
import struct
import sys
from dataclasses import dataclass
from typing import Any

from sksstruct.crfsuite._attributes import AttributeList
from sksstruct.crfsuite._file import ModelFile
from sksstruct.crfsuite._scores import Scores

PathLike = str | bytes | os.PathLike
#: Version of CRFsuite whose files are read and written.
CRFSUITE_VERSION = "0.12"
# Fields of the header of a model file, in the order of the file.
_HEADER = (
    "magic", "size", "type", "version", "num_features", "num_labels", "num_attrs",
    "off_features", "off_labels", "off_attrs", "off_labelrefs", "off_attrrefs",
)  # fmt: skip


class ItemSequence(AttributeList):
    """The items of a sentence, read once for several calls.

    Parameters
    ----------
    pyseq : iterable of {dict, list, set}
        The items. An item is a dict of attributes and their values, such as
        ``{"a": 0.5, "b": True}``, or a list or set of attributes of value 1. A string
        in place of a value is joined to the name: ``{"w": "he"}`` is the attribute
        "w:he" of value 1. A dict, list or set in place of a value is an item whose
        attributes are joined to the name. Strings may be bytes of UTF-8.

    Notes
    -----
    In contrast to python-crfsuite, a string in place of a sentence or of an item is an
    error, and so are NaN and infinity.

    Examples
    --------
    >>> from sksstruct.crfsuite import ItemSequence
    >>> ItemSequence([{"w": "he", "at": {"start": 0.5}}]).items()
    [{'w:he': 1.0, 'at:start': 0.5}]
    """

    def __init__(self, pyseq: Any) -> None:
        super().__init__(pyseq)

    def items(self) -> list[dict[str, float]]:
        """Attributes of each item, with the last value of an attribute that repeats.

        Returns
        -------
        items : list of dict of str to float
            Names and values.
        """
        return [dict(pairs) for pairs in self._pairs()]

    def __repr__(self):
        return f"<ItemSequence of size {len(self)}>"


@dataclass(frozen=True)
class ModelInfo:
    """Content of a model file.

    Parameters
    ----------
    header : dict of str to str
        Fields of the header of the file.
    labels, attributes : dict of str to str
        Number of each label or attribute, as a string, by name.
    transitions : dict of (str, str) to float
        Weights of pairs of labels, (from, to).
    state_features : dict of (str, str) to float
        Weights of pairs of an attribute and a label.
    """

    header: dict[str, str]
    labels: dict[str, str]
    attributes: dict[str, str]
    transitions: dict[tuple[str, str], float]
    state_features: dict[tuple[str, str], float]


class Tagger:
    """Tagger of sentences by a model file of CRFsuite.

    The methods are those of python-crfsuite, with the same labels and probabilities.
    `tag` may be called by several threads at once. `set` stores a sentence for the
    methods that follow it: threads that call `set` need a tagger each.

    Notes
    -----
    In contrast to python-crfsuite, opening a damaged file raises an error, and so does
    calling a method before `open`. An unknown label is a ValueError. `info` has the
    weights to their last digit.

    Examples
    --------
    >>> from sksstruct.crfsuite import Tagger, Trainer
    >>> trainer = Trainer(verbose=False)
    >>> trainer.append([["w=he"], ["w=ran"]], ["PRP", "VBD"])
    >>> trainer.train("tagger.crfsuite")
    >>> tagger = Tagger()
    >>> with tagger.open("tagger.crfsuite"):
    ...     tagger.tag([["w=he"], ["w=ran"]])
    ['PRP', 'VBD']
    """

    def __init__(self) -> None:
        self._model: Any = None
        self._scores: Any = None

    def open(self, name: PathLike) -> contextlib.closing:
        """Open a model file.

        Parameters
        ----------
        name : path-like
            The file.

        Returns
        -------
        context : context manager
            Closes the tagger at the end of a ``with`` block.
        """
        self.close()
        with open(name, "rb") as file:
            return self._open(file.read(), f"the model file {name!r}")

    def open_inmemory(self, value: bytes) -> contextlib.closing:
        """Open a model from the bytes of a file.

        Parameters
        ----------
        value : bytes
            Content of the file.

        Returns
        -------
        context : context manager
            Closes the tagger at the end of a ``with`` block.
        """
        self.close()
        return self._open(value, "value")

    def _open(self, data, what):
        try:
            self._model = ModelFile(data)
        except ValueError as error:
            raise ValueError(f"{what} cannot be opened: {error}") from None
        self._scores = Scores(self._model, ())
        return contextlib.closing(self)

    def close(self) -> None:
        """Close the model."""
        self._model = self._scores = None

    def _opened(self, error=ValueError):
        """Return the open model; without one, raise python-crfsuite's kind of error."""
        if self._model is None:
            raise error("the tagger is not opened: call open first")
        return self._model

    def labels(self) -> list[str]:
        """Labels of the model.

        Returns
        -------
        labels : list of str
            Labels in the order of the file.
        """
        return list(self._opened().labels)

    def set(self, xseq: Any) -> None:
        """Set the sentence of `probability`, `marginal` and `tag` without arguments.

        Parameters
        ----------
        xseq : ItemSequence or iterable of {dict, list, set}
            Items, as for `ItemSequence`.
        """
        self._scores = Scores(self._opened(), xseq)

    def tag(self, xseq: Any = None) -> list[str]:
        """Best labels of a sentence.

        Parameters
        ----------
        xseq : ItemSequence or iterable of {dict, list, set}, default=None
            Items, as for `ItemSequence`; None: the sentence of the last call of `set`
            or `tag`.

        Returns
        -------
        yseq : list of str
            A label for each item.
        """
        if xseq is None:
            self._opened()
            return self._scores.best()
        self._scores = scores = Scores(self._opened(), xseq)
        return scores.best()

    def probability(self, yseq: Any) -> float:
        """Probability of labels for the sentence that was set.

        Parameters
        ----------
        yseq : sequence of {str, bytes}
            A label for each item.

        Returns
        -------
        probability : float
            Probability of the labels; 0 if the sentence has no items.
        """
        numbers = self._opened().numbers
        if not len(self._scores):
            return 0.0
        labels = [_text(label) for label in yseq]
        if len(labels) != len(self._scores):
            raise ValueError(
                f"yseq has {len(labels)} labels, and the sentence "
                f"{len(self._scores)} items"
            )
        for t, label in enumerate(labels):
            if label not in numbers:
                raise ValueError(
                    f"yseq[{t}] has the label {label!r:.80}, which the model does not "
                    "have"
                )
        return self._scores.probability([numbers[label] for label in labels])

    def marginal(self, y: str | bytes, pos: int) -> float:
        """Probability of a label at a position of the sentence that was set.

        Parameters
        ----------
        y : str or bytes
            The label.
        pos : int
            The position.

        Returns
        -------
        probability : float
            Marginal probability; 0 if the sentence has no items.
        """
        number, size = self._opened().numbers.get(_text(y)), len(self._scores)
        if not size:
            return 0.0
        if not 0 <= pos < size:
            raise ValueError(f"pos must be in [0, {size}), got {pos!r}")
        if number is None:
            raise ValueError(f"the model does not have the label y={y!r:.80}")
        return self._scores.marginal(number, pos)

    def marginals(self) -> list[dict[str, float]]:
        """Probabilities of all labels at all positions.

        python-crfsuite does not have this method.

        Returns
        -------
        marginals : list of dict of str to float
            For each item of the sentence that was set, labels and their probabilities.
        """
        self._opened()
        return self._scores.marginals()

    def info(self) -> ModelInfo:
        """Content of the model.

        Returns
        -------
        info : ModelInfo
            Header, names and weights.
        """
        model = self._opened(RuntimeError)
        fields = struct.unpack_from("<4sI4sI8I", model.data)
        header = {}
        for name, value in zip(_HEADER, fields, strict=True):
            value = value.decode() if isinstance(value, bytes) else value
            header[name] = f"0x{value:X}" if name.startswith("off_") else str(value)
        labels, n_attributes = model.labels, model.n_attributes
        attributes = [model.attribute(k).decode() for k in range(n_attributes)]
        return ModelInfo(
            header,
            {label: str(k) for k, label in enumerate(labels)},
            {attribute: str(k) for k, attribute in enumerate(attributes)},
            {
                (label, labels[other]): weight
                for k, label in enumerate(labels)
                for other, weight in model.transitions(k)
            },
            {
                (attribute, labels[label]): weight
                for k, attribute in enumerate(attributes)
                for label, weight in model.states(k)
            },
        )

    def dump(self, filename: PathLike | None = None) -> None:
        """Write the content of the model as text.

        Parameters
        ----------
        filename : path-like, default=None
            The file; None: standard output.
        """
        info = self.info()
        parts = {
            "FILEHEADER": [f"{name}: {value}" for name, value in info.header.items()],
            "LABELS": [f"{k:>5}: {label}" for label, k in info.labels.items()],
            "ATTRIBUTES": [f"{k:>5}: {name}" for name, k in info.attributes.items()],
            "TRANSITIONS": _arrows(1, info.transitions),
            "STATE_FEATURES": _arrows(0, info.state_features),
        }
        to_stdout = contextlib.nullcontext(sys.stdout)
        with open(filename, "w", encoding="utf-8") if filename else to_stdout as file:
            for name, lines in parts.items():
                file.write("\n  ".join([f"{name} = {{", *lines]) + "\n}\n\n")


def _arrows(kind, weights):
    """Return lines that show weights, of kind 0 for states and 1 for transitions."""
    return [
        f"({kind}) {source} --> {label}: {weight:.6f}"
        for (source, label), weight in weights.items()
    ]


def _text(label):
    return label.decode() if isinstance(label, bytes) else label
