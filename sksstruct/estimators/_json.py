"""Taggers as JSON, format 1; `doc/how_to/deploy.rst` describes it."""

import gzip
import json
import math
import zlib
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from sksstruct.estimators._carried import set_fitted
from sksstruct.estimators._crfsuite_model import is_small
from sksstruct.estimators.chain_crf import ChainCRF
from sksstruct.feature_extraction import (
    ColumnFeatures,
    SequenceHasher,
    SequenceVectorizer,
)
from sksstruct.utils._names import FeatureNames
from sksstruct.utils._param_validation import validate_params
from sksstruct.utils.labels import LabelEncoder
from sksstruct.utils.state import __version__

_FORMAT, _FORMAT_VERSION = "sksstruct tagger", 1
# Compressed text is refused if it is so many times longer than the file.
_MOST = 1000
_PLAIN = str, bool, int, float, type(None)
_DTYPES = {"float32": np.float32, "float64": np.float64}
# The names of the features are those that the step before gives.
_BEFORE = "of the step before"
# Numbers of a fit that further training reads, if there are any.
_TRAINING = "alpha_", "intercept_scaling_", "n_seen_"
_STREAM = "visits", "alpha", "mean_length", "mean_square", "intercept_scaling"


# ---- writing ----


def write_json(path, steps):
    """Write the steps of a tagger to a file.

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
                f"the step {name!r} is a {kind}, which JSON cannot hold; it can hold "
                f"{', '.join(_CLASSES)}"
            )
        check_is_fitted(step)
        parameters = {
            key: _plain(value, f"{kind}, {key}")
            for key, value in step.get_params(deep=False).items()
        }
        fitted = _WRITERS[kind](step, names)
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
        # the same bytes each time
        text = gzip.compress(text, mtime=0)
    Path(path).write_bytes(text)


def _plain(value, what):
    """A parameter as JSON has it."""
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
            "it, set the parameter to a name or a number first"
        )
    return value


def _write_chain(crf, names):
    """Fitted attributes of a `ChainCRF`; `names` are those of the step before."""
    fitted, own = vars(crf), crf._names_in
    if "score_parameters_" in fitted:
        raise ValueError("JSON cannot hold the score_function of a tagger")
    labels = crf.classes_.tolist()
    for label in labels:
        if not isinstance(label, str | bool | int | float):
            raise ValueError(f"JSON cannot hold the label {label!r:.80}")
    if own is not None:
        own = _BEFORE if own == names else own.to_list()
    stream = {key: crf._stream[key] for key in _STREAM if key in crf._stream}
    numbers = {key: fitted[key] for key in _TRAINING if key in fitted}
    pairs = fitted.get("transition_coef_")
    return {
        "labels": labels,
        "features": own,
        "n_features": crf.n_features_in_,
        "loss": crf._loss if isinstance(crf._loss, str) else "smoothed_hinge",
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
        "forbidden_transitions": [list(pair) for pair in crf.forbidden_transitions_],
        "training": {key: float(value) for key, value in numbers.items()},
        "stream": {key: float(value) for key, value in stream.items()},
    }


def _table(values):
    """A table as the stored values of its rows, and how many each row has."""
    table = sparse.csr_array(values)
    table.sort_indices()
    data = table.data.tolist()
    if table.dtype == np.float32:
        # as few digits as tell the numbers apart
        data = [float(f"{value:.9g}") for value in data]
    return {
        "counts": np.diff(table.indptr).tolist(),
        "columns": table.indices.tolist(),
        "values": data,
    }


# ---- reading ----


def read_json(path):
    """Read the steps of a tagger from a file.

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
    try:
        text = _text(Path(path))
        document = json.loads(
            text, object_pairs_hook=_distinct, parse_constant=_no_constant
        )
        fields = _fields(
            document, "the file", "format", "format_version", "sksstruct_version",
            "steps",
        )  # fmt: skip
        if fields[0] != _FORMAT or fields[1] != _FORMAT_VERSION:
            raise ValueError(
                f"the format is {fields[0]!r:.80}, version {fields[1]!r:.80}; expected "
                f"{_FORMAT!r}, version {_FORMAT_VERSION}"
            )
        steps, names = [], None
        for k, step in enumerate(_of(list, fields[3], "steps")):
            where = f"steps[{k}]"
            name, estimator = _read_step(step, where, names, len(text))
            names = getattr(estimator, "_names", None)
            if name in dict(steps):
                raise ValueError(f"{where}: the name {name!r:.80} occurs twice")
            steps.append((name, estimator))
        return steps
    except RecursionError:
        raise ValueError(f"{path} is no tagger in JSON: too many brackets") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise ValueError(f"{path} is no tagger in JSON: {error}") from None


def _text(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        most = _MOST * len(data)
        try:
            with gzip.open(path) as file:
                data = file.read(most + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"it is not compressed by gzip: {error}") from None
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


def _of(kind, value, where):
    """A value of a type; True is no number."""
    if type(value) is not kind:
        raise ValueError(f"{where} must be {kind.__name__}, got {value!r:.80}")
    return value


def _fields(value, where, *names):
    """The values of an object that has these keys and no others."""
    _of(dict, value, where)
    if value.keys() != set(names):
        differing = sorted(map(str, value.keys() ^ set(names)))
        raise ValueError(f"{where} must have {list(names)}; it differs in {differing}")
    return [value[name] for name in names]


def _read_step(step, where, names, n_bytes):
    """The name and the estimator of a step."""
    name, kind, parameters, fitted = _fields(
        step, where, "name", "class", "parameters", "fitted"
    )
    _of(str, name, f"{where}, name")
    cls = _CLASSES.get(_of(str, kind, f"{where}, class"))
    if cls is None:
        raise ValueError(f"{where} is a {kind!r:.80}; expected {list(_CLASSES)}")
    values = _of(dict, parameters, f"{where}, parameters").copy()
    if unknown := values.keys() - cls().get_params(deep=False).keys():
        raise ValueError(f"{where}: {kind} has no parameter {min(unknown)!r:.80}")
    if "dtype" in values:
        values["dtype"] = _DTYPES[_one_of(_DTYPES, values["dtype"], f"{where}, dtype")]
    if isinstance(values.get("class_weight"), list):
        values["class_weight"] = dict(values["class_weight"])
    estimator = cls(**values)
    validate_params(estimator)
    _READERS[kind](estimator, fitted, f"{where}, fitted", names, n_bytes)
    return name, estimator


def _one_of(values, value, where):
    if not isinstance(value, str) or value not in values:
        raise ValueError(f"{where} must be one of {list(values)}, got {value!r:.80}")
    return value


def _read_vectorizer(step, fitted, where, names, n_bytes):
    features, counts = _fields(fitted, where, "features", "counts")
    features = _names(features, f"{where}, features")
    counts = _vector(counts, "i", f"{where}, counts", len(features))
    step._restore({"counts_": counts, "_names": features})


def _read_columns(step, fitted, where, names, n_bytes):
    """`ColumnFeatures`; fitted again, on a sentence without tokens of such columns."""
    n, columns = _fields(fitted, where, "n_columns", "column_names")
    if not 1 <= _of(int, n, f"{where}, n_columns") <= n_bytes:
        raise ValueError(f"{where}, n_columns must be positive and small, got {n}")
    step.fit([([],) * n])
    if columns is not None:
        if len(_names(columns, f"{where}, column_names")) != n:
            raise ValueError(f"{where} has not {n} column_names")
        step.column_names_ = columns


def _read_hasher(step, fitted, where, names, n_bytes):
    _fields(fitted, where)


def _read_chain(crf, fitted, where, names, n_bytes):
    (
        labels, features, n_features, loss, dtype, is_sparse, coef, intercept, start,
        end, transitions, pairs, forbidden, training, stream,
    ) = _fields(
        fitted, where, "labels", "features", "n_features", "loss", "dtype", "sparse",
        "coef", "intercept", "start", "end", "transitions", "transition_coef",
        "forbidden_transitions", "training", "stream",
    )  # fmt: skip
    n, index = len(_of(list, labels, f"{where}, labels")), {}
    for label in labels:
        if type(label) not in (str, bool, int, float) or label in index:
            raise ValueError(f"{where}, labels: {label!r:.80} is none, or occurs twice")
        index[label] = len(index)
    m = _of(int, n_features, f"{where}, n_features")
    if features == _BEFORE:
        features = names
    elif features is not None:
        features = _names(features, f"{where}, features")
    if n < 1 or m < 0 or (features is not None and len(features) != m):
        raise ValueError(f"{where}: {n} labels or {m} features do not fit together")
    dense = {
        name: name not in _of(list, is_sparse, f"{where}, sparse") and small
        for name, small in (
            ("coef", is_small(n, m, n_bytes)),
            ("transitions", is_small(n, n, n_bytes)),
        )
    }
    coef = _read_table(coef, f"{where}, coef", m, n).T
    coef = coef.astype(_DTYPES[_one_of(_DTYPES, dtype, f"{where}, dtype")])
    transitions = _read_table(transitions, f"{where}, transitions", n, n)
    attributes = {
        "classes_": LabelEncoder.in_order(labels).classes_,
        "n_features_in_": m,
        "coef_": coef.toarray() if dense["coef"] else coef,
        "intercept_": _vector(intercept, "f", f"{where}, intercept", n),
        "start_": _vector(start, "f", f"{where}, start", n),
        "end_": _vector(end, "f", f"{where}, end", n),
        "transitions_": transitions.toarray() if dense["transitions"] else transitions,
        "forbidden_transitions_": _forbidden(forbidden, index, where),
        "_loss": _one_of(("hinge", "log", "smoothed_hinge"), loss, f"{where}, loss"),
        "_stream": _numbers(stream, _STREAM, f"{where}, stream"),
        **_numbers(training, _TRAINING, f"{where}, training"),
    }
    if features is not None:
        attributes["_names_in"] = features
    if pairs is not None:
        name = f"{where}, transition_coef"
        attributes["transition_coef_"] = _read_table(pairs, name, m, n * n)
    set_fitted(crf, attributes)


def _names(value, where):
    """Names of features, each a string of its own."""
    if not all(type(name) is str for name in _of(list, value, where)):
        raise ValueError(f"{where} must be strings")
    if len(set(value)) < len(value):
        raise ValueError(f"{where}: a name occurs twice")
    return FeatureNames(value)


def _numbers(value, names, where):
    """Positive numbers by name, which may be missing."""
    for name, number in _of(dict, value, where).items():
        _one_of(names, name, where)
        if _of(float, number, f"{where}, {name}") < 0.0:
            raise ValueError(f"{where}, {name} must not be negative, got {number}")
    return value


def _forbidden(pairs, index, where):
    where = f"{where}, forbidden_transitions"
    out = []
    for pair in _of(list, pairs, where):
        if len(_of(list, pair, where)) != 2 or pair == [None, None]:
            raise ValueError(f"{where}: {pair!r:.80} is no pair of labels")
        if not all(x is None or (type(x) is not list and x in index) for x in pair):
            raise ValueError(f"{where}: {pair!r:.80} has another label")
        out.append(tuple(pair))
    return out


def _vector(value, kind, where, n=None):
    """A vector of integers that are not negative, or of finite numbers."""
    kinds = {int} if kind == "i" else {int, float}
    if not set(map(type, _of(list, value, where))) <= kinds:
        wanted = "integers" if kind == "i" else "numbers"
        raise ValueError(f"{where} must have {wanted} only")
    if n is not None and len(value) != n:
        raise ValueError(f"{where} must have {n} numbers, it has {len(value)}")
    out = np.array(value, dtype=np.int64 if kind == "i" else np.float64)
    if not np.isfinite(out).all() or (kind == "i" and (out < 0).any()):
        raise ValueError(f"{where} has a number that is negative or not finite")
    return out


def _read_table(value, where, n_rows, n_columns):
    """A sparse table."""
    counts, columns, values = _fields(value, where, "counts", "columns", "values")
    counts = _vector(counts, "i", f"{where}, counts", n_rows)
    columns = _vector(columns, "i", f"{where}, columns")
    values = _vector(values, "f", f"{where}, values", len(columns))
    ends = np.cumsum(counts)
    if counts.max(initial=0) > n_columns or ends[-1:].sum() != len(columns):
        raise ValueError(f"{where}: the counts are not those of the columns")
    rows = np.repeat(np.arange(n_rows), counts)
    if len(columns) and (
        columns.max() >= n_columns or (np.diff(columns)[np.diff(rows) == 0] <= 0).any()
    ):
        raise ValueError(
            f"{where}, columns must ascend in each row, and be less than {n_columns}"
        )
    indptr = np.concatenate([[0], ends])
    # 32-bit indices where they are enough, which kernels need
    table = sparse.csr_array((values, columns, indptr), shape=(n_rows, n_columns))
    index = sparse.get_index_dtype((indptr, columns), max(columns.size, n_columns))
    table.indices, table.indptr = columns.astype(index), indptr.astype(index)
    return table


_CLASSES = {
    cls.__name__: cls
    for cls in (ColumnFeatures, SequenceVectorizer, SequenceHasher, ChainCRF)
}
_WRITERS = {
    "ColumnFeatures": lambda step, _: {
        "n_columns": step.n_columns_,
        "column_names": step.column_names_,
    },
    "SequenceVectorizer": lambda step, _: {
        "features": step.feature_names_,
        "counts": step.counts_.tolist(),
    },
    "SequenceHasher": lambda step, _: {},
    "ChainCRF": _write_chain,
}
_READERS = {
    "ColumnFeatures": _read_columns,
    "SequenceVectorizer": _read_vectorizer,
    "SequenceHasher": _read_hasher,
    "ChainCRF": _read_chain,
}
