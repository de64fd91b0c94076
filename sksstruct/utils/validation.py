"""Checks of input: ragged features and labels, packed once.

Every error names the argument and the sequence at fault.
"""

import math
from collections.abc import Hashable, Mapping, Set
from itertools import chain
from numbers import Real

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _check_sample_weight

from sksstruct.utils._layout import object_array
from sksstruct.utils.packed import PackedLabels, PackedSequences
from sksstruct.utils.sparse_input import check_sparse

# Labels whose Python counterparts are integers, if they are precise enough.
_TIMES = np.datetime64, np.timedelta64
# What other frameworks have for positions without a label.
PADDING = -100
# Labels that are looked at together.
_BATCH = 2**20
_HINT = (
    "pass a list of arrays of shape (n_positions, n_features), or of scipy CSR "
    "matrices, one for each sequence; SequenceVectorizer makes them from dicts or "
    "strings, and make_tagger puts it in front of a tagger. For one sequence pass [X]"
)


def check_sequences(X, *, n_features=None, all_empty=False, name="X"):
    """Pack feature matrices of many sequences.

    Parameters
    ----------
    X : list of array-like or CSR of shape (n_positions, n_features), ndarray of shape \
            (n_sequences, n_positions, n_features), or PackedSequences
        Features.
    n_features : int, default=None
        Number of features expected.
    all_empty : bool, default=False
        Whether it is enough to have sequences without positions.
    name : str, default="X"
        Name of the argument in errors.

    Returns
    -------
    packed : PackedSequences
        float32 if all items are, else float64. Items are stacked, not kept. A sequence
        may have no positions, and then be ``[]``.

    Raises
    ------
    TypeError
        If X, or an item, is of a kind that cannot hold features.
    ValueError
        If X is empty, or an item has the wrong number of dimensions or features, or
        holds NaN or infinity.
    """
    packed = X if isinstance(X, PackedSequences) else _pack(X, n_features, name)
    if not len(packed):
        raise ValueError(f"{name} is empty: at least one sequence is required")
    if not all_empty and not packed.offsets[-1]:
        raise ValueError(f"{name} has no positions: every sequence is empty")
    _check_finite(packed, name)
    if n_features is not None and packed.n_features != n_features:
        raise ValueError(
            f"{name} has {packed.n_features} features in each row, but {n_features} "
            "features were seen in fit"
        )
    return packed


def _check_finite(packed, name):
    values = packed.stored.data if packed.is_sparse else packed.values
    # A sum is finite if all terms are, short of overflow: only then look closely.
    with np.errstate(over="ignore", invalid="ignore"):
        total = np.add.reduce(values.reshape(-1), dtype=np.float64)
    if math.isfinite(total) or np.isfinite(values).all():
        return
    bad = ~np.isfinite(values)
    if packed.is_sparse:
        row = np.searchsorted(packed.values.indptr, np.flatnonzero(bad)[0], "right") - 1
    else:
        row = np.flatnonzero(bad.any(axis=1))[0]
    i = int(np.searchsorted(packed.offsets, row, "right")) - 1
    raise ValueError(
        f"{name}[{i}] contains NaN or infinity, at position {row - packed.offsets[i]}"
    )


def _pack(X, n_features, name):
    items = _items(X, name)
    feature_names = _feature_names(items)
    is_sparse = _in_one_form(items, name)
    if not is_sparse:
        items = [
            item if item is None else _as_dense(item, i, name)
            for i, item in enumerate(items)
        ]
    lengths, width = _shapes(items, n_features, name)
    if is_sparse:
        items = [
            item if item is None else _as_csr(item, f"{name}[{i}]")
            for i, item in enumerate(items)
        ]
    given = next((x for x in items if x is not None), np.zeros((0, width)))
    items = [given[:0] if item is None else item for item in items]
    dtypes = {item.dtype for item in items}
    dtype = np.float32 if dtypes == {np.dtype(np.float32)} else np.float64
    if is_sparse:
        values = _stack_csr(items, lengths, width, dtype, name)
    else:
        values = np.empty((lengths.sum(), width), dtype=dtype)
        if items:
            np.concatenate(items, out=values, casting="unsafe")
    return PackedSequences.from_lengths(values, lengths, feature_names)


def _items(X, name):
    """The sequences in a list; None for one without positions, such as ``[]``."""
    if sparse.issparse(X) or isinstance(X, str | bytes | Mapping):
        raise TypeError(f"{name} is a single {type(X).__name__}: {_HINT}")
    if isinstance(X, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array: fill or drop masked entries")
    if isinstance(X, np.ndarray) and X.dtype != object:
        if X.ndim != 3:
            raise ValueError(f"{name} is a {X.ndim}-D array: {_HINT}")
        _check_numeric(X, name)
    if hasattr(X, "columns"):
        raise TypeError(f"{name} is a single {type(X).__name__}: {_HINT}")
    try:
        items = list(X)
    except TypeError:
        raise TypeError(f"{name} is a {type(X).__name__}: {_HINT}") from None
    return [None if _is_blank(item) else item for item in items]


def _is_blank(item):
    """Whether a sequence has no positions and does not say how many features."""
    if isinstance(item, np.ndarray):
        return item.shape == (0,)
    if sparse.issparse(item) or not _is_list(item):
        return False
    return len(item) == 0 and getattr(item, "ndim", 1) == 1


def _in_one_form(items, name):
    """Whether the sequences are sparse; they must all be, or none."""
    given = [(i, sparse.issparse(x)) for i, x in enumerate(items) if x is not None]
    if len({is_sparse for _, is_sparse in given}) > 1:
        first = given[0]
        other = next(pair for pair in given if pair[1] != first[1])
        raise TypeError(
            f"{name}[{other[0]}] is {'sparse' if other[1] else 'dense'} while "
            f"{name}[{first[0]}] is not: pass all sequences in one form"
        )
    return bool(given) and given[0][1]


def _shapes(items, width, name):
    """Number of positions of each sequence, and the number of features of all."""
    lengths = np.zeros(len(items), dtype=np.intp)
    first = None
    for i, item in enumerate(items):
        if item is None:
            continue
        shape = item.shape
        if len(shape) != 2:
            raise ValueError(
                f"{name}[{i}] is {len(shape)}-D: a sequence must be 2-D, of shape "
                "(n_positions, n_features); for one sequence pass [X]"
            )
        if first is None:
            first, width = i, shape[1]
            if not width:
                raise ValueError(f"{name}[{i}] has 0 features: at least 1 is required")
        if shape[1] != width:
            raise ValueError(
                f"{name}[{i}] has {shape[1]} features, but {name}[{first}] has {width}"
            )
        lengths[i] = shape[0]
    return lengths, width or 0


def _as_dense(item, i, name):
    if isinstance(item, np.ma.MaskedArray):
        raise TypeError(f"{name}[{i}] is a masked array: fill or drop masked entries")
    if isinstance(item, np.ndarray) and item.dtype.kind in "biuf":
        return item
    name = f"{name}[{i}]"
    raw = _raw_features(item)
    if raw is not None:
        raise TypeError(
            f"{name} has a {raw} in place of numbers: make_tagger() makes a tagger "
            "that takes dicts or strings; ChainCRF alone takes what SequenceVectorizer "
            "returns, or arrays of shape (n_positions, n_features)"
        )
    try:
        array = np.asarray(item)
    except ValueError:
        raise ValueError(
            f"{name} is not a matrix, its rows differ in length: {_HINT}"
        ) from None
    if array.dtype.kind not in "biuf" and hasattr(item, "columns"):
        for column in item.columns:
            _check_numeric(np.asarray(item[column]), f"{name}[{column!r}]")
    _check_numeric(array, name)
    return array


def _raw_features(item):
    """Kind of what still needs a vectorizer: a dict or string in the place of numbers.

    None if the first entries are something else.
    """
    while isinstance(item, list | tuple | Set) and len(item):
        item = next(iter(item))
    if isinstance(item, np.ndarray) and item.dtype.kind in "US":
        return "str"
    return type(item).__name__ if isinstance(item, str | bytes | Mapping) else None


def _check_numeric(array, name):
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{name} has dtype {array.dtype}, not a real number: {_HINT}")


def _as_csr(item, name):
    if item.format == "csr":  # whose structure is checked for all items at once
        return item
    check_sparse(item, name)
    return item.tocsr()


def _stack_csr(items, lengths, width, dtype, name):
    for i, item in enumerate(items):
        _check_numeric(item, f"{name}[{i}]")
    _check_all_sparse(items, lengths, width, name)
    nnz = np.fromiter((item.indptr[-1] for item in items), np.int64, len(items))
    # Stored entries beyond indptr[-1] are legal and not part of the matrix.
    parts = [
        (item.data[:end], item.indices[:end])
        for item, end in zip(items, nnz.tolist(), strict=True)
    ]
    indptr = np.zeros(lengths.sum() + 1, dtype=np.int64)
    np.concatenate([item.indptr[1:] for item in items], out=indptr[1:])
    indptr[1:] += np.repeat(np.cumsum(nnz) - nnz, lengths)
    data = np.empty(nnz.sum(), dtype=dtype)
    np.concatenate([values for values, _ in parts], out=data, casting="unsafe")
    indices = np.empty(nnz.sum(), dtype=np.int32)
    # all columns are known to be below the width
    np.concatenate([columns for _, columns in parts], out=indices, casting="same_kind")
    if indptr[-1] <= np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)
    out = sparse.csr_array((data, indices, indptr), shape=(lengths.sum(), width))
    out.sum_duplicates()
    return out


def _check_all_sparse(items, lengths, width, name):
    """Check the structure of CSR matrices: all at once, as most are small."""
    if not items:
        return
    if width > np.iinfo(np.int32).max:
        raise ValueError(f"{name} has {width} features, which 32 bits cannot number")
    pointers = [item.indptr for item in items]
    sound = all(
        len(pointer) == length + 1 and pointer[0] == 0
        and pointer[-1] <= min(len(item.indices), len(item.data))
        for item, pointer, length in zip(items, pointers, lengths, strict=True)
    )  # fmt: skip
    if sound:
        ends = np.concatenate([pointer[1:] for pointer in pointers])
        starts = np.concatenate([pointer[:-1] for pointer in pointers])
        columns = np.concatenate([item.indices[: item.indptr[-1]] for item in items])
        sound = (starts <= ends).all() and (
            not len(columns) or 0 <= columns.min() <= columns.max() < width
        )
    # one by one, for an error that says where it is
    for i, item in enumerate([] if sound else items):
        check_sparse(item, f"{name}[{i}]")


def _feature_names(items):
    """Column names where every item is a data frame with the same string columns."""
    frames = [(i, item) for i, item in enumerate(items) if item is not None]
    columns = getattr(frames[0][1], "columns", None) if frames else None
    if columns is None:
        return None
    names = list(columns)
    if not all(isinstance(name, str) for name in names):
        return None
    for i, item in frames:
        if list(getattr(item, "columns", ())) != names:
            raise ValueError(f"X[{i}] has other column names than X[{frames[0][0]}]")
    return names


class LabelEncoder:
    """Encodes labels as 0..K-1: any hashable values, sorted if they can be.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; of dtype object unless all are strings or all are numbers.
    """

    def __init__(self, classes):
        self.classes_ = classes
        self._index = {label: k for k, label in enumerate(classes.tolist())}

    @classmethod
    def from_labels(cls, labels):
        """Encoder of the distinct values of an iterable of labels."""
        distinct = set(labels)
        if _are_plain(distinct):
            ordered = sorted(distinct)
        else:  # some kinds, such as sets, have a partial order only
            ordered = sorted(distinct, key=lambda x: (type(x).__name__, _text(x)))
        return cls(_class_array(ordered))

    def encode(self, flat, default=None):
        """Codes of a flat list of labels; unknown ones get the default."""
        if default is None:
            get = self._index.__getitem__
        else:
            index = self._index

            def get(label):
                return index.get(label, default)

        return np.fromiter(map(get, flat), dtype=np.int32, count=len(flat))


def _are_plain(labels):
    """Whether labels are all strings, or all numbers; times are neither."""
    if any(isinstance(label, _TIMES) for label in labels):
        return False
    return any(all(isinstance(x, kind) for x in labels) for kind in (str, Real))


def _text(label):
    """What labels without an order are sorted by: the same in every process."""
    # sets print their elements in an order that depends on the seed of their hashes
    if isinstance(label, Set):
        return "{" + ", ".join(sorted(map(_text, label))) + "}"
    if isinstance(label, tuple):
        return "(" + ", ".join(map(_text, label)) + ")"
    return repr(label)


def _class_array(ordered):
    if _are_plain(ordered):
        out = np.array(ordered)
        # Arrays change some labels: trailing zero characters, integers beside floats.
        if out.ndim == 1 and out.tolist() == ordered:
            return out
    return object_array(ordered)


def check_labels(y, lengths, *, name="y", unknown=False):
    """Flatten the labels of many sequences into one list of Python objects.

    Parameters
    ----------
    y : list of array-like of shape (n_positions,)
        Labels.
    lengths : array-like of shape (n_sequences,)
        Number of positions of each sequence.
    name : str, default="y"
        Name of the argument in errors.
    unknown : bool, default=False
        Whether None may stand for an unknown label; each sequence needs at least one
        known label.

    Raises
    ------
    ValueError, TypeError
        If y does not have one label for each position, or a label is missing (None
        or NaN) or not hashable.
    """
    if not _is_list(y) or hasattr(y, "columns"):
        raise TypeError(f"{name} must be a list of label sequences, got {y!r:.80}")
    if len(y) != len(lengths):
        raise ValueError(
            f"{name} has {len(y)} sequences, but X has {len(lengths)} sequences"
        )
    rows = []
    for i, row in enumerate(y):
        if isinstance(row, np.ndarray):
            if row.ndim != 1:
                raise ValueError(
                    f"{name}[{i}] is {row.ndim}-D: the labels of a sequence must be 1-D"
                )
            # as Python objects, but for times, some of which would become numbers
            row = list(row) if row.dtype.kind in "mM" else row.tolist()
        elif not _is_list(row) or hasattr(row, "columns"):
            raise TypeError(
                f"{name}[{i}] is {row!r:.80}: the labels of a sequence must be a list "
                "or a 1-D array"
            )
        if len(row) != lengths[i]:
            raise ValueError(
                f"{name}[{i}] has {len(row)} labels, but X[{i}] has {lengths[i]} "
                "positions"
            )
        rows.append(row)
    flat = list(chain.from_iterable(rows))
    if any(issubclass(kind, np.generic) for kind in set(map(type, flat))):
        flat = [
            x.item() if isinstance(x, np.generic) and not isinstance(x, _TIMES) else x
            for x in flat
        ]
    # Checks the distinct labels; looks for the sequence only if one is bad.
    try:
        distinct = set(flat)
    except TypeError:
        bad = next(k for k, v in enumerate(flat) if not isinstance(v, Hashable))
        raise TypeError(
            f"{name}[{_sequence_of(bad, lengths)}] has a label that is not hashable: "
            f"{flat[bad]!r:.80}"
        ) from None
    if unknown and None in distinct:
        distinct.discard(None)
        for i, row in enumerate(rows):
            if len(row) and all(label is None for label in row):
                raise ValueError(
                    f"{name}[{i}] has a missing label: None, at every position. At "
                    "least one label must be known"
                )
    for label in distinct:
        # pandas' NA is neither equal nor unequal to anything
        if label is None or type(label).__name__ == "NAType" or label != label:
            bad = next(k for k, v in enumerate(flat) if v is label)
            raise ValueError(
                f"{name}[{_sequence_of(bad, lengths)}] has a missing label: {label!r}"
            )
    return flat


def encode_labels(y, lengths):
    """Distinct labels of many sequences, and their numbers.

    Parameters
    ----------
    y : list of array-like of shape (n_positions,), or PackedLabels
        Labels; None stands for an unknown one.
    lengths : array-like of shape (n_sequences,)
        Number of positions of each sequence.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The labels that occur.
    codes : ndarray of shape (n_positions,), int32
        Their numbers, flat; 0 where a label is not known.
    known : ndarray of shape (n_positions,), bool, or None
        Where labels are known; None: everywhere.

    Raises
    ------
    ValueError, TypeError
        As in `check_labels`.
    """
    if not isinstance(y, PackedLabels):
        flat = check_labels(y, lengths, unknown=True)
        encoder = LabelEncoder.from_labels(label for label in flat if label is not None)
        known = None
        if None in flat:
            known = np.array([label is not None for label in flat])
        codes = encoder.encode(flat, default=0)
        _refuse_padding(encoder.classes_, codes, known, lengths)
        return encoder.classes_, codes, known
    y.check_lengths(lengths)
    codes, known = y.codes, None
    if (codes < 0).any():
        known = codes >= 0
        # empty sequences have no label to be known
        some = np.diff(np.concatenate([[0], np.cumsum(known)])[y.offsets])
        unseen = np.flatnonzero((some == 0) & (np.diff(y.offsets) > 0))
        if len(unseen):
            raise ValueError(
                f"y[{unseen[0]}] has a missing label: None, at every position. At "
                "least one label must be known"
            )
    occurs = np.zeros(len(y.classes) + 1, dtype=bool)
    # in pieces, as an index is copied in 64 bits
    for first in range(0, len(codes), _BATCH):
        occurs[codes[first : first + _BATCH]] = True
    used = np.flatnonzero(occurs[:-1])
    encoder = LabelEncoder.from_labels(y.classes[used].tolist())
    numbers = np.zeros(len(y.classes) + 1, dtype=np.int32)
    numbers[used] = encoder.encode(y.classes[used].tolist())
    # as saved, where nothing is to be changed: they may be on disk
    if known is not None or (numbers[:-1] != np.arange(len(y.classes))).any():
        codes = numbers[codes]
    _refuse_padding(encoder.classes_, codes, known, lengths)
    return encoder.classes_, codes, known


def _refuse_padding(classes, codes, known, lengths):
    """Raise an error for -100, which other frameworks ignore, beside 0, 1, ..."""
    if len(classes) < 2 or classes.dtype.kind not in "if":
        return
    if classes[0] != PADDING or classes[1] < 0:
        return
    is_padding = codes == 0
    if known is not None:
        is_padding &= known
    k = int(np.argmax(is_padding))
    i = _sequence_of(k, lengths)
    raise ValueError(
        f"y[{i}] has the label {PADDING} at position {k - int(np.sum(lengths[:i]))}, "
        "which other frameworks ignore and which would be a label here: use None for "
        "missing labels, or cut the padding off"
    )


def costs_by_name(class_weight, classes):
    """Cost of each label from a dict; 1 for labels that it does not name.

    As in scikit-learn, a name that is not in y is an error unless all labels of y are
    named: then a fold of a cross-validation may lack it.
    """
    labels = classes.tolist()
    known = set(labels)
    unknown = [name for name in class_weight if name not in known]
    if unknown and not all(label in class_weight for label in labels):
        raise ValueError(
            f"class_weight names {unknown[0]!r}, which is not a label of y: these are "
            f"{', '.join(map(repr, labels[:20]))}{', ...' * (len(labels) > 20)}. If a "
            "fold of a cross-validation may lack a label, class_weight must name all "
            "others too"
        )
    values = [class_weight.get(label, 1.0) for label in labels]
    if not all(isinstance(value, Real) for value in values):
        raise ValueError("class_weight must map labels to numbers")
    return np.array(values, dtype=np.float64)


def _is_list(y):
    """Whether y has entries in a definite order."""
    if isinstance(y, str | bytes | Mapping | Set) or not hasattr(y, "__len__"):
        return False
    return getattr(y, "ndim", 1) > 0


def _sequence_of(position, lengths):
    return int(np.searchsorted(np.cumsum(lengths), position, "right"))


def _refuse_nested_weight(sample_weight, what, instead):
    """Raise an error for weights of parts of examples, in an array or in lists."""
    if not _is_list(sample_weight) or not len(sample_weight):
        return
    if getattr(sample_weight, "ndim", 1) > 1 or _is_list(next(iter(sample_weight))):
        raise ValueError(
            f"sample_weight must have one number for each {what}, not several: "
            f"{instead}"
        )


def check_sequence_weight(sample_weight, n_sequences, *, all_zero=False):
    """Weights of sequences as floats, or None; all may be zero with `all_zero`.

    Raises
    ------
    ValueError
        If the length does not fit, a weight is negative, NaN or infinite, or all are 0.
    """
    if sample_weight is None:
        return None
    _refuse_nested_weight(
        sample_weight,
        "sequence",
        "in training, class_weight weights positions by their labels, and positions "
        "with the label None have no loss",
    )
    weight = np.asarray(sample_weight)
    if weight.ndim == 1 and len(weight) != n_sequences:
        raise ValueError(
            f"sample_weight has {len(weight)} entries, but X has {n_sequences} "
            "sequences: it takes one weight for each sequence"
        )
    weight = _check_sample_weight(
        sample_weight,
        np.empty((n_sequences, 1)),
        dtype=np.float64,
        allow_all_zero_weights=True,
    )
    if (weight < 0).any():
        i = int(np.flatnonzero(weight < 0)[0])
        raise ValueError(
            f"sample_weight[{i}] is negative: {weight[i]}. Negative values in data "
            "passed to `sample_weight`"
        )
    if not weight.any() and not all_zero:
        raise ValueError("sample_weight is zero for every sequence")
    if not np.isfinite(weight.sum()):
        raise ValueError("sample_weight is too large: its sum is infinite")
    return weight


def check_position_weight(sample_weight, lengths):
    """Weights of all positions in a row, from weights of sequences, or None.

    Raises
    ------
    ValueError
        If `check_sequence_weight` does, or no position has a weight.
    """
    weight = check_sequence_weight(sample_weight, len(lengths))
    if not np.any(lengths if weight is None else weight * lengths):
        raise ValueError("no sequence of positive weight has positions to score")
    return None if weight is None else np.repeat(weight, lengths)


def check_example_weight(sample_weight, n_examples, factors=None):
    """Examples of positive weight, and their weights, which sum to one.

    Parameters
    ----------
    sample_weight : array-like of shape (n_examples,) or None
        Factor of each example's loss.
    n_examples : int
        Number of examples.
    factors : callable, default=None
        ``factors(weight)`` returns further factors, those of scikit-learn's
        ``class_weight``, which do not count in the sum.

    Returns
    -------
    keep : ndarray of int
        Numbers of the examples.
    weight : ndarray
        Their weights.

    Raises
    ------
    ValueError
        If a weight is not valid, or none is positive.
    """
    _refuse_nested_weight(
        sample_weight, "example", "nodes of a Graph have node_weights"
    )
    weight = _check_sample_weight(
        sample_weight, np.zeros((n_examples, 1)), ensure_non_negative=True
    )
    total = float(weight.sum())
    if factors is not None:
        factor = factors(weight)
        if not (np.isfinite(factor).all() and (factor >= 0.0).all()):
            raise ValueError("class_weight must be finite and not negative")
        weight = weight * factor
    if not np.isfinite(total):
        raise ValueError("sample_weight is too large: its sum overflows")
    keep = np.flatnonzero(weight > 0.0)
    if not len(keep):
        raise ValueError("class_weight and sample_weight leave no sample")
    return keep, weight[keep] / total
