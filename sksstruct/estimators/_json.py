"""Taggers as JSON, format 1; `doc/how_to/deploy.rst` describes it."""

import gzip
import json
import math
from pathlib import Path
from typing import TypeVar

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._carried import set_fitted
from sksstruct.estimators._crfsuite_model import is_small
from sksstruct.estimators._losses import loss_of
from sksstruct.feature_extraction import (
    ColumnFeatures,
    SequenceHasher,
    SequenceVectorizer,
)
from sksstruct.losses import LOSSES
from sksstruct.utils._files import cut, reading
from sksstruct.utils._names import FeatureNames
from sksstruct.utils._param_validation import Interval, Options, validate_params
from sksstruct.utils.labels import LabelEncoder
from sksstruct.utils.version import __version__

_Class = TypeVar("_Class", bound=type)
_FORMAT, _FORMAT_VERSION = "sksstruct tagger", 1
# Compressed text is refused if it is longer than this multiple of the file's size.
_MOST = 1000
# An integer with more digits is read as infinity; float64 can hold all other integers.
_MOST_DIGITS = 300
_PLAIN = str, bool, int, float, type(None)
_LABEL = str, bool, int, float
_DTYPES = {"float32": np.float32, "float64": np.float64}
# Stands for the names of features that the previous step of the pipeline already has.
_BEFORE = "of the step before"
# Numbers of a fit that partial_fit and warm starts read, if there are any.
_TRAINING = "alpha_", "intercept_scaling_", "n_seen_"
_STREAM = "visits", "alpha", "mean_length", "mean_square", "intercept_scaling"
# Keys of the fitted attributes of a ChainCRF in the file.
_CHAIN = (
    "labels", "features", "n_features", "loss", "dtype", "sparse", "coef", "intercept",
    "start", "end", "transitions", "transition_coef", "triples",
    "forbidden_transitions", "training", "stream",
)  # fmt: skip
# Estimators that JSON can hold, by name. The module of `ChainCRF` imports this module,
# and enters the class by `held_by_json`.
_CLASSES: dict[str, type] = {
    cls.__name__: cls for cls in (ColumnFeatures, SequenceVectorizer, SequenceHasher)
}


def held_by_json(cls: _Class) -> _Class:
    """Decorator: JSON can hold the estimator `cls`, but no class derived from it."""
    _CLASSES[cls.__name__] = cls
    return cls


# ---- writing ----


def write_json(path, steps):
    """Write the steps of a tagger to a JSON file.

    Parameters
    ----------
    path : path-like
        The file; compressed if the name ends with ".gz".
    steps : list of (str, estimator)
        Fitted steps.
    """
    written, names = [], None
    for name, step in steps:
        if step in (None, "passthrough"):
            continue
        kind = type(step).__name__
        if type(step) is not _CLASSES.get(kind):
            raise ValueError(
                f"the step {name!r:.80} is a {kind}, which JSON cannot hold; it can "
                f"hold {', '.join(_CLASSES)}"
            )
        check_is_fitted(step)
        parameters = {
            key: _plain(value, f"{kind}, {key}")
            for key, value in step.get_params(deep=False).items()
        }
        fitted = _fitted(step, names)
        names = getattr(step, "_names", None)
        written.append(
            {"name": name, "class": kind, "parameters": parameters, "fitted": fitted}
        )
    document = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "sksstruct_version": __version__,
        "steps": written,
    }
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
    if str(path).endswith(".gz"):
        # without a time stamp, the same model has the same bytes
        text = gzip.compress(text, mtime=0)
    Path(path).write_bytes(text)


def _plain(value, what):
    """Convert the value of a parameter to types of JSON."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if value in _DTYPES.values() and isinstance(value, type):
        return np.dtype(value).name
    if isinstance(value, list | tuple):
        return [_plain(each, what) for each in value]
    if isinstance(value, dict):
        return [[_plain(k, what), _plain(v, what)] for k, v in value.items()]
    if not isinstance(value, _PLAIN) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        raise ValueError(
            f"{what} is {value!r:.80}, which JSON cannot hold; if only training uses "
            "the parameter, set it to a name or a number first"
        )
    return value


def _fitted(step, names):
    """Fitted attributes of a step; `names` are the names of its input features."""
    if isinstance(step, SequenceVectorizer):
        return _names(step._names) | {"counts": step.counts_.tolist()}
    if isinstance(step, ColumnFeatures):
        return {"n_columns": step.n_columns_, "column_names": step.column_names_}
    return {} if isinstance(step, SequenceHasher) else _fitted_chain(step, names)


def _names(names):
    """Names of features, and their spellings if there are any."""
    spelled = {"spellings": list(map(list, names.spellings))} if names.spellings else {}
    return {"features": names.to_list()} | spelled


def _fitted_chain(crf, names):
    fitted, own = vars(crf), crf._names_in
    if "score_parameters_" in fitted:
        raise ValueError(
            "JSON cannot hold the score_function of a ChainCRF: pickle the tagger"
        )
    labels = crf.classes_.tolist()
    for label in labels:
        if not isinstance(label, _LABEL):
            raise ValueError(
                f"classes_ has the label {label!r:.80}, which JSON cannot hold: train "
                "with labels that are strings or numbers"
            )
    named = {"features": own}
    if own is not None:
        named = {"features": _BEFORE} if own == names else _names(own)
    stream = {key: crf._stream[key] for key in _STREAM if key in crf._stream}
    centers = dict(crf._stream).get("centers")
    if centers is not None:
        named["centers"] = _table(sparse.csr_array(centers[None]))
    numbers = {key: fitted[key] for key in _TRAINING if key in fitted}
    if crf._temperature is not None:
        numbers["temperature"] = crf._temperature
    pairs, triples = fitted.get("transition_coef_"), fitted.get("triples_")
    return {
        "labels": labels,
        **named,
        "n_features": crf.n_features_in_,
        "loss": loss_of(crf).name,
        "dtype": crf.coef_.dtype.name,
        "sparse": [
            name
            for name in ("coef", "transitions")
            if sparse.issparse(fitted[f"{name}_"])
        ],
        "coef": _table(crf.coef_.T),
        "intercept": crf.intercept_.tolist(),
        "start": crf.start_.tolist(),
        "end": crf.end_.tolist(),
        "transitions": _table(crf.transitions_),
        "transition_coef": None if pairs is None else _table(pairs),
        "triples": None if triples is None else _table(triples),
        "forbidden_transitions": [list(pair) for pair in crf.forbidden_transitions_],
        "training": {key: float(value) for key, value in numbers.items()},
        "stream": {key: float(value) for key, value in stream.items()},
    }


def _table(values):
    """Convert a table to JSON: number of entries of each row, columns and values."""
    table = sparse.csr_array(values)
    table.sort_indices()
    data = table.data.tolist()
    if table.dtype == np.float32:
        # nine digits identify a float32
        data = [float(f"{value:.9g}") for value in data]
    return {
        "counts": np.diff(table.indptr).tolist(),
        "columns": table.indices.tolist(),
        "values": data,
    }


# ---- reading ----


def read_json(path):
    """Read the steps of a tagger from a JSON file.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    steps : list of (str, estimator)
        Fitted steps.

    Raises
    ------
    ValueError
        If the file is not what `write_json` writes. The message says where.
    """
    with reading(path, " is no tagger in JSON"):
        text = _text(Path(path))
        document = json.loads(
            text,
            object_pairs_hook=_distinct,
            parse_constant=_no_constant,
            parse_int=_integer,
        )
        _check_finite(document, "")
        top = _Object(
            document, "the file", "format", "format_version", "sksstruct_version",
            "steps",
        )  # fmt: skip
        version = top["format"], top["format_version"]
        if version != (_FORMAT, _FORMAT_VERSION):
            raise ValueError(
                f"the format and its version are {version!r:.80}; expected {_FORMAT!r} "
                f"and {_FORMAT_VERSION}"
            )
        steps, names = {}, None
        for k, step in enumerate(top.of(list, "steps")):
            part = _Object(
                step, f"steps[{k}]", "name", "class", "parameters", "fitted"
            )  # fmt: skip
            name, estimator = part.of(str, "name"), _read_step(part, names, len(text))
            names = getattr(estimator, "_names", None)
            if name in steps:
                raise ValueError(f"{part.where}: the name {name!r:.80} occurs twice")
            steps[name] = estimator
        return list(steps.items())


def _text(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        most = _MOST * len(data)
        with gzip.open(path) as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise ValueError(f"its text is more than {_MOST} times as long as the file")
    return data.decode()


def _distinct(pairs):
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError(f"a key occurs twice among {[key for key, _ in pairs]!r:.80}")
    return out


def _no_constant(name):
    raise ValueError(f"{name} is not JSON")


def _integer(digits):
    return int(digits) if len(digits) <= _MOST_DIGITS else math.inf


def _check_finite(value, where):
    """Raise an error if a number is infinite: the parser reads 1e999 as infinity."""
    if isinstance(value, dict):
        items = [(f"{where}, {key:.80}", each) for key, each in value.items()]
    elif isinstance(value, list):
        # fast path: most values are numbers in long flat lists
        is_flat = {dict, list}.isdisjoint(map(type, value))
        if is_flat and math.inf not in value and -math.inf not in value:
            return
        items = [(f"{where}[{k}]", each) for k, each in enumerate(value)]
    elif value in (math.inf, -math.inf):
        raise ValueError(
            f"{where.removeprefix(', ')} must be a finite number, got {value}"
        )
    else:
        return
    for place, each in items:
        _check_finite(each, place)


class _Object:
    """A JSON object with exactly the given keys, and checked access to its values.

    Parameters
    ----------
    value : object
        The parsed value.
    where : str
        Place of the value in the file, for error messages.
    *names : str
        The keys.
    """

    def __init__(self, value, where, *names):
        if type(value) is not dict:
            raise ValueError(f"{where} must be an object, got {value!r:.80}")
        # "spellings" is an optional key beside "features"
        given = value.keys() - ({"spellings"} if "features" in names else set())
        # "centers" is an optional key beside "stream"
        given -= {"centers"} if "stream" in names else set()
        if given != set(names):
            keys = sorted(given ^ set(names))
            raise ValueError(
                f"{where} must have {list(names)}; it differs in {keys!r:.80}"
            )
        self.value, self.where = value, where

    def __getitem__(self, key):
        return self.value[key]

    def at(self, key):
        """Place of a value in the file, for error messages."""
        return f"{self.where}, {key}"

    def of(self, kind, key):
        """The value of `key`, of exactly the type `kind`: True is not an int."""
        value = self.value[key]
        if type(value) is not kind:
            name = kind.__name__
            raise ValueError(f"{self.at(key)} must be {name}, got {value!r:.80}")
        return value

    def one_of(self, values, key):
        """The string of `key`, which must be one of `values`."""
        if self.of(str, key) not in values:
            raise ValueError(
                f"{self.at(key)} must be one of {list(values)}, got {self[key]!r:.80}"
            )
        return self[key]

    def names(self, key):
        """The distinct names of `key`; names of features may have spellings."""
        names = self.of(list, key)
        if set(map(type, names)) - {str} or len(set(names)) < len(names):
            raise ValueError(f"{self.at(key)} must be different strings")
        return FeatureNames(names, self.value.get("spellings", ()))

    def integers(self, key, n=None):
        """A vector of `n` nonnegative integers; of any length if n is None."""
        return self._vector(key, {int}, np.int64, n)

    def numbers(self, key, n=None, dtype=np.float64):
        """A float64 vector of `n` numbers that are finite in `dtype`, too."""
        values = self._vector(key, {int, float}, np.float64, n)
        with np.errstate(over="ignore"):
            bad = np.flatnonzero(~np.isfinite(values.astype(dtype)))
        if len(bad):
            raise ValueError(
                f"{self.at(key)}[{bad[0]}] must be finite as {np.dtype(dtype).name}, "
                f"got {values[bad[0]]}"
            )
        return values

    def _vector(self, key, kinds, dtype, n):
        values = self.of(list, key)
        if not set(map(type, values)) <= kinds:
            wanted = "integers" if dtype is np.int64 else "numbers"
            raise ValueError(f"{self.at(key)} must have {wanted} only")
        if n is not None and len(values) != n:
            raise ValueError(f"{self.at(key)} must have {n} numbers, not {len(values)}")
        try:
            out = np.array(values, dtype=dtype)
        except OverflowError:
            raise ValueError(f"{self.at(key)} has a number that is too large") from None
        if dtype is np.int64 and (out < 0).any():
            raise ValueError(f"{self.at(key)} has a negative number")
        return out

    def scalars(self, names, key):
        """A dict of nonnegative floats by name; each name may be missing."""
        scalars = self.of(dict, key)
        part = _Object(scalars, self.at(key), *[x for x in names if x in scalars])
        if min((part.of(float, name) for name in scalars), default=0.0) < 0.0:
            raise ValueError(f"{part.where} must not be negative, got {scalars!r:.80}")
        return scalars

    def table(self, key, n_rows, n_columns, dtype=np.float64):
        """The CSR array of weights of `key`, with numbers that are finite in dtype."""
        part = _Object(self[key], self.at(key), "counts", "columns", "values")
        counts, columns = part.integers("counts", n_rows), part.integers("columns")
        values = part.numbers("values", len(columns), dtype)
        if counts.max(initial=0) > n_columns or counts.sum() != len(columns):
            raise ValueError(
                f"{part.where}: the counts must sum to the number of columns entries, "
                f"{len(columns)}, and be at most {n_columns}"
            )
        rows = np.repeat(np.arange(n_rows), counts)
        falls = (np.diff(columns) <= 0) & (np.diff(rows) == 0)
        if falls.any() or columns.max(initial=-1) >= n_columns:
            raise ValueError(
                f"{part.at('columns')} must ascend in each row, to {n_columns - 1}"
            )
        # coo_array chooses 32-bit indices, which kernels need, where they suffice
        return sparse.coo_array((values, (rows, columns)), (n_rows, n_columns)).tocsr()


def _read_step(part, names, n_bytes):
    """The fitted estimator of a step, from the step's JSON object."""
    kind = part.one_of(_CLASSES, "class")
    cls, values = _CLASSES[kind], dict(part.of(dict, "parameters"))
    if unknown := values.keys() - cls().get_params(deep=False).keys():
        raise ValueError(f"{part.where}: {kind} has no parameter {min(unknown)!r:.80}")
    if "dtype" in values:
        given = _Object(values, part.at("parameters"), *values)
        values["dtype"] = _DTYPES[given.one_of(_DTYPES, "dtype")]
    if isinstance(values.get("class_weight"), list):
        values["class_weight"] = _by_label(values["class_weight"], part)
    estimator = cls(**values)
    _check_parameters(estimator, values, part.at("parameters"))
    fitted = part["fitted"], part.at("fitted")
    if kind == "SequenceVectorizer":
        fitted = _Object(*fitted, "features", "counts")
        features = fitted.names("features")
        counts = fitted.integers("counts", len(features))
        estimator._restore({"counts_": counts, "_names": features})
    elif kind == "ColumnFeatures":
        _read_columns(estimator, _Object(*fitted, "n_columns", "column_names"), n_bytes)
    elif kind == "ChainCRF":
        set_fitted(estimator, _read_chain(_Object(*fitted, *_CHAIN), names, n_bytes))
    else:
        _Object(*fitted)
    return estimator


def _by_label(pairs, part):
    """Convert a list of pairs (label, number) to a dict, after checks."""
    for pair in pairs:
        kinds = tuple(map(type, pair)) if type(pair) is list else ()
        if len(kinds) != 2 or kinds[0] not in _LABEL or kinds[1] not in (int, float):
            raise ValueError(
                f"{part.at('parameters')}, class_weight: {pair!r:.80} is no pair of a "
                "label and a number"
            )
    return dict(pairs)


def _check_parameters(estimator, values, where):
    """Check parameters as `fit` does, and refuse bools and numbers of wrong types."""
    try:
        validate_params(estimator)
    except ValueError as error:
        raise ValueError(f"{where}: {cut(str(error))}") from None
    for name, value in values.items():
        allowed = estimator._parameter_constraints.get(name, ())
        if type(value) is bool:
            # scikit-learn's constraints accept True as an integer
            fits = "boolean" in allowed or "verbose" in allowed
        elif type(value) in (int, float):
            # scikit-learn's constraint of `solver`, an object, accepts a number
            fits = {Interval, Options, str} & set(map(type, allowed))
        else:
            continue
        if not fits:
            raise ValueError(f"{where}, {name} must not be {value}")


def _read_columns(step, fitted, n_bytes):
    """Restore a `ColumnFeatures` by a fit to an empty sentence of `n` columns."""
    n = fitted.of(int, "n_columns")
    if not 1 <= n <= n_bytes:
        raise ValueError(f"{fitted.at('n_columns')} must be positive, got {n}")
    step.fit([([],) * n])
    if fitted["column_names"] is not None:
        step.column_names_ = fitted.names("column_names").to_list()
        if len(step.column_names_) != n:
            raise ValueError(
                f"{fitted.at('column_names')} must be {n}, not "
                f"{len(step.column_names_)}"
            )


def _read_chain(fitted, names, n_bytes):
    """Fitted attributes of a `ChainCRF`, from their JSON object."""
    labels, m = fitted.of(list, "labels"), fitted.of(int, "n_features")
    n, kinds = len(labels), set(map(type, labels))
    if n < 1 or not kinds <= set(_LABEL) or len(set(labels)) < n:
        raise ValueError(f"{fitted.at('labels')} must be different strings or numbers")
    features = fitted["features"]
    if features == _BEFORE and names is not None:
        features = names
    elif features is not None:
        features = fitted.names("features")
    if features is not None and len(features) != m:
        raise ValueError(f"{fitted.at('features')} must be {m}, not {len(features)}")
    dtype = _DTYPES[fitted.one_of(_DTYPES, "dtype")]
    coef = fitted.table("coef", m, n, dtype).T.astype(dtype)
    transitions = fitted.table("transitions", n, n)
    sparse_names = fitted.of(list, "sparse")
    if "coef" not in sparse_names and is_small(n, m, n_bytes):
        coef = coef.toarray()
    if "transitions" not in sparse_names and is_small(n, n, n_bytes):
        transitions = transitions.toarray()
    attributes = {
        "classes_": LabelEncoder.in_order(labels).classes_,
        "n_features_in_": m,
        "coef_": coef,
        "intercept_": fitted.numbers("intercept", n),
        "start_": fitted.numbers("start", n),
        "end_": fitted.numbers("end", n),
        "transitions_": transitions,
        "forbidden_transitions_": _forbidden(fitted, set(labels)),
        "_loss": fitted.one_of(LOSSES.makers, "loss"),
        "_stream": fitted.scalars(_STREAM, "stream"),
    }
    if "centers" in fitted.value:
        centers = fitted.table("centers", 1, m).toarray()
        attributes["_stream"] |= {"centers": centers[0]}
    numbers = fitted.scalars((*_TRAINING, "temperature"), "training")
    if "temperature" in numbers:
        attributes["_temperature"] = numbers.pop("temperature")
        # scores are divided by the temperature: its inverse must be finite
        if attributes["_temperature"] < 1.0 / np.finfo(np.float64).max:
            raise ValueError(f"{fitted.at('training')}: temperature must be positive")
    attributes |= numbers
    if features is not None:
        attributes["_names_in"] = features
    for name, n_rows in (("transition_coef", m), ("triples", n)):
        if fitted[name] is not None:
            attributes[f"{name}_"] = fitted.table(name, n_rows, n * n)
    return attributes


def _forbidden(fitted, labels):
    pairs = fitted.of(list, "forbidden_transitions")
    for pair in pairs:
        if (
            type(pair) is not list
            or len(pair) != 2
            or pair == [None, None]
            or not all(x is None or (type(x) in _LABEL and x in labels) for x in pair)
        ):
            where = fitted.at("forbidden_transitions")
            raise ValueError(f"{where}: {pair!r:.80} is no pair of labels")
    return [tuple(pair) for pair in pairs]
