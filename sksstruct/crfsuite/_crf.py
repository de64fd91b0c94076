"""Estimator with the parameters, methods and attributes of sklearn-crfsuite."""

import os
import tempfile
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator

from sksstruct.crfsuite._tagger import ModelInfo, PathLike, Tagger
from sksstruct.crfsuite._trainer import Trainer, TrainingLog
from sksstruct.metrics import token_accuracy_score

# Parameters of `CRF` that have another name in `Trainer`, and the name in `Trainer`.
_NAMES = {
    "min_freq": "feature.minfreq",
    "all_possible_states": "feature.possible_states",
    "all_possible_transitions": "feature.possible_transitions",
    "pa_type": "type",
}
_OTHERS = ("algorithm", "verbose", "model_filename", "keep_tempfiles", "trainer_cls")


class LineTrainer(Trainer):
    """Trainer that prints a line for each pass."""

    def on_iteration(self, log, info):
        print(" ".join(f"{name}={value:.6g}" for name, value in info.items()))


@dataclass(eq=False, repr=False)
class CRF(BaseEstimator):
    """Tagger with the parameters, methods and attributes of sklearn-crfsuite's `CRF`.

    `Trainer` trains the model. `sksstruct.make_tagger` has further losses, constraints
    and penalties. Pickles contain the model.

    Parameters
    ----------
    algorithm : str or None, default=None
        Training algorithm, "lbfgs" or "l2sgd"; None is "lbfgs". "ap", "pa" and "arow"
        are an error in `fit`, which says what to use.
    min_freq : float or None, default=None
        Frequency that a weight must have to exist: the sum of the values of an
        attribute at the positions with a label, or the number of pairs of labels. None
        is 0.
    all_possible_states, all_possible_transitions : bool or None, default=None
        Whether pairs of an attribute and a label, or of two labels, have weights if
        they do not occur together in the training data.
    c1, c2 : float or None, default=None
        Coefficients of the L1 norm and of the squared L2 norm; None is 0 and 1.
    max_iterations : int or None, default=None
        Most passes over the data.
    num_memories, epsilon, period, delta, linesearch, max_linesearch, calibration_eta, \
calibration_rate, calibration_samples, calibration_candidates, \
calibration_max_trials, pa_type, c, error_sensitive, averaging, variance, \
gamma : object, default=None
        Parameters of CRFsuite's solvers, which have no effect.
    verbose : bool, default=False
        Whether `fit` prints a line for each pass.
    model_filename : path-like or None, default=None
        File that `fit` writes. If it exists, predictions do not need `fit`.
    keep_tempfiles : bool, default=False
        Whether the file of `modelfile` stays when the object is deleted.
    trainer_cls : type or None, default=None
        Subclass of `Trainer` that trains.

    Attributes
    ----------
    training_log_ : TrainingLog or None
        Passes and messages of the training.

    Notes
    -----
    In contrast to sklearn-crfsuite, X and y of different lengths are an error. As in
    sklearn-crfsuite, `predict` returns an array of two dimensions if all sequences have
    the same length.

    Examples
    --------
    >>> from sksstruct.crfsuite import CRF
    >>> X = [[{"w": "he"}, {"w": "ran"}], [{"w": "she"}, {"w": "ran"}]]
    >>> crf = CRF(c2=0.1).fit(X, [["PRP", "VBD"], ["PRP", "VBD"]])
    >>> crf.predict_single([{"w": "she"}, {"w": "ran"}])
    ['PRP', 'VBD']
    """

    algorithm: str | None = None
    min_freq: float | None = None
    all_possible_states: bool | None = None
    all_possible_transitions: bool | None = None
    c1: float | None = None
    c2: float | None = None
    max_iterations: int | None = None
    num_memories: int | None = None
    epsilon: float | None = None
    period: int | None = None
    delta: float | None = None
    linesearch: str | None = None
    max_linesearch: int | None = None
    calibration_eta: float | None = None
    calibration_rate: float | None = None
    calibration_samples: float | None = None
    calibration_candidates: int | None = None
    calibration_max_trials: int | None = None
    pa_type: int | None = None
    c: float | None = None
    error_sensitive: bool | None = None
    averaging: bool | None = None
    variance: float | None = None
    gamma: float | None = None
    verbose: bool = False
    model_filename: PathLike | None = None
    keep_tempfiles: bool = False
    trainer_cls: type[Trainer] | None = None

    def __post_init__(self) -> None:
        self.training_log_: TrainingLog | None = None
        self._model: bytes | None = None
        self._forget()

    def _forget(self) -> None:
        """Drop the tagger, the content and the file name formed from another model."""
        self._opened: Tagger | None = None
        self._info: ModelInfo | None = None
        self._file: str | None = None

    def fit(self, X: Any, y: Any, X_dev: Any = None, y_dev: Any = None) -> Self:
        """Train on labeled sequences.

        Parameters
        ----------
        X : list of list of {dict, list, set}
            Sequences of items, as for `ItemSequence`.
        y : list of list of str
            Labels.
        X_dev, y_dev : list, default=None
            Held-out sequences and labels. `fit` reports their accuracy at the end.

        Returns
        -------
        self : CRF
            The fitted tagger.
        """
        if (X_dev is None) != (y_dev is None):
            raise ValueError("X_dev and y_dev must be given together")
        params = {
            _NAMES.get(name, name.replace("calibration_", "calibration.")): value
            for name, value in self.get_params().items()
            if name not in _OTHERS and value is not None
        }
        trainer = (self.trainer_cls or LineTrainer)(
            algorithm=self.algorithm, params=params, verbose=self.verbose
        )
        groups = [(X, y)] if X_dev is None else [(X, y), (X_dev, y_dev)]
        for group, (items, labels) in enumerate(groups):
            if len(items) != len(labels):
                raise ValueError(
                    f"{'X and y' if not group else 'X_dev and y_dev'} must be of the "
                    f"same sequences, got {len(items)} and {len(labels)}"
                )
            for xseq, yseq in zip(items, labels, strict=True):
                trainer.append(xseq, yseq, group)
        holdout = len(groups) - 1 or -1
        model = None
        if self.model_filename is not None:
            trainer.train(self.model_filename, holdout)
        else:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder, "model")
                trainer.train(path, holdout)
                model = path.read_bytes()
        self._forget()
        self._model, self.training_log_ = model, trainer.logparser
        return self

    def __sklearn_is_fitted__(self):
        return self._model is not None or os.path.exists(self.model_filename or "")

    def __getstate__(self):
        formed = {"_opened": None, "_info": None, "_file": None}
        return super().__getstate__() | formed

    # ---- predictions ----

    def _tagger(self):
        if self.tagger_ is None:
            raise ValueError("this CRF is not fitted: call fit, or set model_filename")
        return self.tagger_

    def predict_single(self, xseq: Any) -> list[str]:
        """Best labels of a sequence.

        Parameters
        ----------
        xseq : list of {dict, list, set}
            Items.

        Returns
        -------
        yseq : list of str
            A label for each item.
        """
        return self._tagger().tag(xseq)

    def predict(self, X: Any) -> np.ndarray:
        """Best labels of sequences.

        Parameters
        ----------
        X : list of list of {dict, list, set}
            Sequences of items.

        Returns
        -------
        y : ndarray of object
            Labels of each sequence.
        """
        return np.array([self.predict_single(xseq) for xseq in X], dtype=object)

    def predict_marginals_single(self, xseq: Any) -> list[dict[str, float]]:
        """Probabilities of the labels of a sequence.

        Parameters
        ----------
        xseq : list of {dict, list, set}
            Items.

        Returns
        -------
        marginals : list of dict of str to float
            For each item labels and their probabilities.
        """
        self._tagger().set(xseq)
        return self._tagger().marginals()

    def predict_marginals(self, X: Any) -> np.ndarray:
        """Probabilities of the labels of sequences.

        Parameters
        ----------
        X : list of list of {dict, list, set}
            Sequences of items.

        Returns
        -------
        marginals : ndarray of object
            Result of `predict_marginals_single` for each sequence.
        """
        return np.array([self.predict_marginals_single(x) for x in X], dtype=object)

    def score(self, X: Any, y: Any) -> float:
        """Share of the items that are labeled correctly.

        Parameters
        ----------
        X : list of list of {dict, list, set}
            Sequences of items.
        y : list of list of str
            True labels.

        Returns
        -------
        score : float
            Accuracy.
        """
        return token_accuracy_score(y, [self.predict_single(xseq) for xseq in X])

    # ---- the model ----

    @property
    def tagger_(self) -> Tagger | None:
        """Tagger: the opened model. Without a model, all properties are None."""
        if self._opened is None and self._model is not None:
            self._opened = Tagger()
            self._opened.open_inmemory(self._model)
        elif self._opened is None and self.model_filename is not None:
            self._opened = Tagger()
            self._opened.open(self.model_filename)
        return self._opened

    @property
    def modelfile(self) -> SimpleNamespace:
        """SimpleNamespace: `name` is the name of a file with the model, or None."""
        if self._file is None and self._model is not None:
            number, self._file = tempfile.mkstemp(".crfsuite", "model")
            with open(number, "wb") as file:
                file.write(self._model)
            if not self.keep_tempfiles:
                remove = Path(self._file).unlink
                weakref.finalize(self, remove, missing_ok=True)
        return SimpleNamespace(name=self._file or self.model_filename)

    def _content(self) -> Any:
        if self._info is None and self.tagger_ is not None:
            self._info = self.tagger_.info()
        return self._info

    @property
    def classes_(self) -> list[str] | None:
        """list of str: the labels."""
        return None if self.tagger_ is None else self.tagger_.labels()

    @property
    def size_(self) -> int | None:
        """int: size of the model file in bytes."""
        return self._content() and int(self._content().header["size"])

    @property
    def num_attributes_(self) -> int | None:
        """int: number of attributes with a weight."""
        return self._content() and len(self._content().attributes)

    @property
    def attributes_(self) -> list[str] | None:
        """list of str: the attributes with a weight."""
        return self._content() and list(self._content().attributes)

    @property
    def state_features_(self) -> dict[tuple[str, str], float] | None:
        """dict: weights of pairs (attribute, label)."""
        return self._content() and self._content().state_features

    @property
    def transition_features_(self) -> dict[tuple[str, str], float] | None:
        """dict: weights of pairs of labels (from, to)."""
        return self._content() and self._content().transitions
