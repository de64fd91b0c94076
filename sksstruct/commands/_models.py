"""Taggers in files, and reports of the labels that they predict."""

from itertools import chain

import joblib
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators import Tagger
from sksstruct.feature_extraction import ColumnFeatures
from sksstruct.metrics import (
    chunk_classification_report,
    flat_classification_report,
    token_accuracy_score,
)
from sksstruct.utils._spans import SpanLabels


def load_model(name):
    """Read an object from a file of joblib, or a tagger from JSON.

    Parameters
    ----------
    name : str
        Name of the file, which ends with ".json" or ".json.gz" for JSON.

    Returns
    -------
    model : object
        The object in the file.
    """
    if name.endswith((".json", ".json.gz")):
        return Tagger.from_json(name)
    try:
        return joblib.load(name)
    except OSError:
        raise
    except Exception as error:  # unpickling may raise any exception
        with open(name, "rb") as file:
            if file.read(4) == b"lCRF":
                raise ValueError(
                    f"{name} is a model of CRFsuite: use 'sksstruct tag', or "
                    "Tagger.from_crfsuite"
                ) from None
        raise ValueError(
            f"{name} is not a model file of joblib: {error!r:.80}"
        ) from None


def load(name):
    """Read a tagger with `ColumnFeatures` from a file of ``sksstruct train``.

    Raises ValueError if the file holds another model.
    """
    tagger = load_model(name)
    if not isinstance(tagger, Tagger) or not isinstance(tagger[0], ColumnFeatures):
        raise ValueError(f"{name} is not a model that 'sksstruct train' wrote")
    check_is_fitted(tagger)
    return tagger


def report(tagger, X, y):
    """Print a tagger's token accuracy, and its scores of chunks or of labels."""
    predicted = tagger.predict(X)
    print(f"token accuracy {token_accuracy_score(y, predicted):.4f}")
    try:
        SpanLabels(dict.fromkeys(chain.from_iterable(y)))
    except ValueError as error:
        # labels that are no chunks, such as parts of speech
        print(f"not by chunks, as {error}")
        print(flat_classification_report(y, predicted, digits=4, zero_division=0.0))
    else:
        print(chunk_classification_report(y, predicted, digits=4))


def labeled(sentences):
    """Split the last column, the labels, from the other columns of sentences."""
    return [s[:-1] for s in sentences], [s[-1] for s in sentences]
