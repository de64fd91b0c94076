"""Trainer with the methods of python-crfsuite."""

import warnings
from functools import cached_property
from typing import Any

from sksstruct.crfsuite._attributes import AttributeList
from sksstruct.crfsuite._tagger import PathLike

_HELP = {
    "feature.minfreq": "Least sum of the values of a feature with a label",
    "feature.possible_states": "Weights of all attributes and labels",
    "feature.possible_transitions": "Weights of all pairs of labels",
    "c1": "Coefficient of the L1 norm of the weights",
    "c2": "Coefficient of the squared L2 norm of the weights",
    "max_iterations": "Most passes over the data",
}
_UNUSED = "Accepted and not used: training stops near the optimum without it"
# Defaults of the parameters that all algorithms have, and of the further parameters of
# each algorithm.
_COMMON = {
    "feature.minfreq": 0.0,
    "feature.possible_states": False,
    "feature.possible_transitions": False,
}
_DEFAULTS = {
    "lbfgs": {
        "c1": 0.0, "c2": 1.0, "max_iterations": 2**31 - 1, "num_memories": 6,
        "epsilon": 1e-5, "period": 10, "delta": 1e-5, "linesearch": "MoreThuente",
        "max_linesearch": 20,
    },
    "l2sgd": {
        "c2": 1.0, "max_iterations": 1000, "period": 10, "delta": 1e-6,
        "calibration.eta": 0.1, "calibration.rate": 2.0, "calibration.samples": 1000.0,
        "calibration.candidates": 10, "calibration.max_trials": 20,
    },
    "ap": {"max_iterations": 100, "epsilon": 0.0},
    "pa": {
        "type": 1, "c": 1.0, "error_sensitive": True, "averaging": True,
        "max_iterations": 100, "epsilon": 0.0,
    },
    "arow": {"variance": 1.0, "gamma": 1.0, "max_iterations": 100, "epsilon": 0.0},
}  # fmt: skip
_ALIASES = {"averaged-perceptron": "ap", "passive-aggressive": "pa"}


class TrainingLog:
    """Passes and messages of a training.

    Attributes
    ----------
    iterations : list of dict
        For each pass "num", "loss" and "time" in seconds.
    last_iteration : dict or None
        The last pass. With a held-out group it also has "item_accuracy_float" and
        "instance_accuracy_float".
    log : list of str
        All messages.
    """

    def __init__(self) -> None:
        self.iterations: list[dict[str, Any]] = []
        self.log: list[str] = []

    @property
    def last_iteration(self) -> dict[str, Any] | None:
        return self.iterations[-1] if self.iterations else None

    @property
    def last_log(self) -> str:
        return self.log[-1] if self.log else ""


class Trainer:
    """Trainer of model files of CRFsuite.

    The methods are those of python-crfsuite. "lbfgs" and "l2sgd" minimize CRFsuite's
    objective with the solvers of `sksstruct.ChainCRF`, until the objective is within
    0.01 % of its optimum or does not fall any more. Parameters of CRFsuite's solvers
    have no effect.

    Parameters
    ----------
    algorithm : str, default="lbfgs"
        Training algorithm, "lbfgs" or "l2sgd". "ap", "pa" and "arow" can be selected,
        but `train` refuses them: they minimize no objective. `sksstruct.make_tagger`
        trains by margins instead.
    params : dict, default=None
        Parameters, as for `set_params`.
    verbose : bool, default=True
        Whether messages are printed.

    Attributes
    ----------
    logparser : TrainingLog or None
        Passes and messages of the last training.

    Notes
    -----
    Subclasses may override `message`, or the methods ``on_start``,
    ``on_featgen_progress``, ``on_featgen_end``, ``on_prepared``, ``on_prepare_error``,
    ``on_iteration``, ``on_optimization_end`` and ``on_end``, as with python-crfsuite.
    Passes are reported at the end of the training, where a held-out group is evaluated
    once.

    As in CRFsuite, an attribute and a label have a weight if they occur together, and
    the values of the attribute at the positions with the label have a sum of at least
    ``feature.minfreq``. With ``c2=0`` the solver is `sksstruct.solvers.LBFGS`.

    Examples
    --------
    >>> from sksstruct.crfsuite import Trainer
    >>> trainer = Trainer("lbfgs", {"c1": 0.1, "c2": 0.1}, verbose=False)
    >>> trainer.append([{"w": "he"}, {"w": "ran"}], ["PRP", "VBD"])
    >>> trainer.train("tagger.crfsuite")
    >>> trainer.logparser.last_iteration["loss"] > 0
    True
    """

    verbose: bool = True
    logparser: TrainingLog | None = None

    # Subclasses that were written for python-crfsuite need not call `__init__`: these
    # are the values of a new trainer.
    _algorithm: str = "lbfgs"
    _event: tuple = ("start",)

    @cached_property
    def _values(self):
        return self._known

    @cached_property
    def _data(self):
        return []

    @property
    def _known(self):
        return _COMMON | _DEFAULTS[self._algorithm]

    def __init__(
        self,
        algorithm: str | None = None,
        params: dict | None = None,
        verbose: bool = True,
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    # ---- parameters ----

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Select an algorithm, and set its parameters to their defaults.

        Parameters
        ----------
        algorithm : str
            Name of the algorithm.
        type : str, default="crf1d"
            Name of the model; there is no other one.
        """
        name = _ALIASES.get(algorithm.lower(), algorithm.lower())
        if name not in _DEFAULTS or type != "crf1d":
            raise ValueError(
                f"algorithm must be one of {', '.join(_DEFAULTS)} and type 'crf1d', "
                f"got {algorithm!r} and {type!r}"
            )
        self._algorithm = name
        self._values = self._known

    def params(self) -> list[str]:
        """Names of the parameters.

        Returns
        -------
        names : list of str
            Parameters of the selected algorithm.
        """
        return list(self._known)

    def _check_name(self, name):
        if name not in self._known:
            raise ValueError(
                f"the algorithm {self._algorithm!r} has no parameter {name!r}: it has "
                f"{', '.join(self._known)}"
            )

    def set(self, name: str, value: Any) -> None:
        """Set a parameter.

        Parameters
        ----------
        name : str
            Name of the parameter.
        value : object
            Its value, or a string that stands for it.
        """
        self._check_name(name)
        kind = type(self._known[name])
        try:
            self._values[name] = kind(int(value) if kind is bool else value)
        except (TypeError, ValueError):
            raise ValueError(
                f"{name} must be of type {kind.__name__}, got {value!r}"
            ) from None

    def get(self, name: str) -> Any:
        """Value of a parameter.

        Parameters
        ----------
        name : str
            Name of the parameter.

        Returns
        -------
        value : object
            Its value.
        """
        self._check_name(name)
        return self._values[name]

    def set_params(self, params: dict[str, Any]) -> None:
        """Set several parameters.

        Parameters
        ----------
        params : dict of str to object
            Values by name.
        """
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """Values of all parameters.

        Returns
        -------
        params : dict of str to object
            Values by name.
        """
        return dict(self._values)

    def help(self, name: str) -> str:
        """Describe a parameter.

        Parameters
        ----------
        name : str
            Name of the parameter.

        Returns
        -------
        text : str
            A line.
        """
        self._check_name(name)
        return _HELP.get(name, _UNUSED)

    # ---- data and training ----

    def append(self, xseq: Any, yseq: Any, group: int = 0) -> None:
        """Add a sentence to the training data.

        Parameters
        ----------
        xseq : ItemSequence or iterable of {dict, list, set}
            Items, as for `ItemSequence`.
        yseq : sequence of {str, bytes}
            A label for each item.
        group : int, default=0
            Number of a group, which `train` may hold out.
        """
        items = xseq if isinstance(xseq, AttributeList) else AttributeList(xseq)
        labels = [y.decode() if isinstance(y, bytes) else y for y in yseq]
        for t, label in enumerate(labels):
            if not isinstance(label, str):
                raise TypeError(f"yseq[{t}] must be a string, got {label!r:.80}")
        if len(labels) != len(items):
            raise ValueError(
                f"sentence {len(self._data)}: xseq has {len(items)} items, and yseq "
                f"{len(labels)} labels"
            )
        self._data.append((items, labels, group))

    def clear(self) -> None:
        """Remove all sentences."""
        self._data = []

    def train(self, model: PathLike, holdout: int = -1) -> None:
        """Train, and write the model.

        Parameters
        ----------
        model : path-like
            The file; "": none is written.
        holdout : int, default=-1
            Number of the group that is held out and evaluated; -1: none.
        """
        if self._algorithm not in ("lbfgs", "l2sgd"):
            raise ValueError(
                f"algorithm={self._algorithm!r} minimizes no objective, and is not in "
                "sksstruct: use 'lbfgs', or sksstruct.make_tagger(), which trains by "
                "margins, too, but to the optimum, and has to_crfsuite"
            )
        # `_fit` imports scikit-learn
        from sksstruct.crfsuite._fit import train_model

        self.logparser = TrainingLog()
        used = [entry for entry in self._data if entry[2] != holdout]
        if not used:
            warnings.warn(
                "no sentences were appended: the model has no labels", stacklevel=2
            )
        train_model(self, used, [e for e in self._data if e[2] == holdout], model)

    # ---- messages ----

    def message(self, message: str) -> None:
        """Receive a message, which by default the methods ``on_...`` print.

        Parameters
        ----------
        message : str
            The text.
        """
        if self.verbose:
            name, *details = self._event
            getattr(self, f"on_{name}")(message, *details)

    def _report(self, text, *event):
        self._event = event
        self.logparser.log.append(text)
        self.message(text)

    def _print(self, log: str, *details: Any) -> None:
        print(log, end="")

    on_start = on_featgen_end = on_prepared = on_prepare_error = _print
    on_featgen_progress = on_iteration = on_optimization_end = on_end = _print
