"""Labels of sequences: of any kind, checked, and encoded as numbers in one array."""

from collections.abc import Hashable, Mapping, Sequence, Set, Sized
from itertools import chain
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from sksstruct.utils._files import cut
from sksstruct.utils._layout import object_array
from sksstruct.utils.typing import Items

# Types whose values `tolist` converts to integers if their unit is, say, nanoseconds.
_TIMES = np.datetime64, np.timedelta64
# Label by which other frameworks mark positions that have no label.
PADDING = -100
# Names of the positions with labels, by the kind of example.
_PLACES = {"sequence": "positions", "graph": "nodes"}
# Number of labels that are processed at a time.
_BATCH = 2**20


class PackedLabels(Sequence):
    """Labels of many sequences as numbers in one array, which may be on disk.

    A read-only sequence of arrays: ``y[i]`` has the labels of sequence i. Estimators
    accept it in place of a list of arrays; training creates no Python object per label.

    Parameters
    ----------
    codes : array-like of shape (n_rows,), int32
        Numbers of the labels; -1 where a label is not known.
    offsets : array-like of shape (n_sequences + 1,)
        Sequence i has the labels ``offsets[i]:offsets[i + 1]``.
    classes : sequence
        The labels.

    Attributes
    ----------
    codes, offsets : ndarray
        As given.
    classes : ndarray of object
        The labels.

    Examples
    --------
    >>> from sksstruct.utils.packed import PackedLabels
    >>> y = PackedLabels([0, 1, 1, 0], offsets=[0, 1, 4], classes=["low", "high"])
    >>> [labels.tolist() for labels in y]
    [['low'], ['high', 'high', 'low']]
    """

    def __init__(self, codes: ArrayLike, offsets: ArrayLike, classes: Items) -> None:
        self.codes = np.ascontiguousarray(codes, dtype=np.int32)
        self.offsets = np.ascontiguousarray(offsets, dtype=np.intp)
        self.classes = object_array(list(classes))
        n, n_classes = len(self.codes), len(self.classes)
        for label in self.classes:
            if isinstance(label, Set):
                raise TypeError(f"classes has a set, {label!r:.80}: a class is a label")
        if n != self.offsets[-1]:
            raise ValueError(f"y has {n} labels, but X has {self.offsets[-1]} rows")
        if n and not -1 <= self.codes.min() <= self.codes.max() < n_classes:
            raise ValueError(f"numbers of labels must be from -1 to {n_classes - 1}")

    def check_lengths(self, lengths: np.ndarray) -> None:
        """Raise an error unless each sequence has as many labels as positions.

        Parameters
        ----------
        lengths : ndarray of shape (n_sequences,)
            Number of positions of each sequence.
        """
        if len(self) != len(lengths):
            raise ValueError(
                f"y has {len(self)} sequences, but X has {len(lengths)} sequences"
            )
        wrong = np.flatnonzero(np.diff(self.offsets) != lengths)
        if len(wrong):
            i = wrong[0]
            n = self.offsets[i + 1] - self.offsets[i]
            raise ValueError(
                f"y[{i}] has {n} labels, but X[{i}] has {lengths[i]} positions"
            )

    def __len__(self):
        return len(self.offsets) - 1

    def __repr__(self):
        return (
            f"PackedLabels({len(self)} sequences, {len(self.codes)} labels, "
            f"{len(self.classes)} classes)"
        )

    def __getitem__(self, key):
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        key = int(key)
        if not -len(self) <= key < len(self):
            raise IndexError(f"sequence {key} of {len(self)}")
        key %= len(self)
        codes = self.codes[self.offsets[key] : self.offsets[key + 1]]
        # the last entry is None, to which the code -1 refers
        return object_array([*self.classes, None])[codes]


class LabelEncoder:
    """Encodes labels as 0..K-1: any hashable values, sorted if they have an order.

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
        """Return an encoder of the distinct values of an iterable of labels."""
        distinct = set(labels)
        if _are_plain(distinct):
            ordered = sorted(distinct)
        else:  # some kinds, such as sets, have a partial order only
            ordered = sorted(distinct, key=lambda x: (type(x).__name__, _text(x)))
        return cls.in_order(ordered)

    @classmethod
    def in_order(cls, labels):
        """Return an encoder of distinct labels in a given order."""
        return cls(_class_array(labels))

    def encode(self, flat, default=None):
        """Return the codes of a flat list of labels.

        Other labels than `classes_` have the code `default`; None: they raise KeyError.
        """
        if default is None:
            get = self._index.__getitem__
        else:
            index = self._index

            def get(label):
                return index.get(label, default)

        return np.fromiter(map(get, flat), dtype=np.int32, count=len(flat))


def _are_plain(labels):
    """Whether labels are all strings or all numbers; times count as neither."""
    if any(isinstance(label, _TIMES) for label in labels):
        return False
    return any(all(isinstance(x, kind) for x in labels) for kind in (str, Real))


def _text(label):
    """Return a sort key for labels without an order, the same in every process."""
    # the order in which sets print depends on the hash seed
    if isinstance(label, Set):
        return "{" + ", ".join(sorted(map(_text, label))) + "}"
    if isinstance(label, tuple):
        return "(" + ", ".join(map(_text, label)) + ")"
    return repr(label)


def _class_array(ordered):
    if _are_plain(ordered):
        out = np.array(ordered)
        # an array may change labels: it drops trailing null characters, and converts
        # integers next to floats
        if out.ndim == 1 and out.tolist() == ordered:
            return out
    return object_array(ordered)


def check_labels(y, lengths, *, name="y", unknown=False, sets=False, what="sequence"):
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
        Whether None may stand for an unknown label.
    sets : bool, default=False
        Whether a set may stand for one of its labels. A set of one label becomes this
        label, larger sets become frozensets.
    what : {"sequence", "graph"}, default="sequence"
        What an example is called in errors.

    Returns
    -------
    flat : list
        The labels.

    Raises
    ------
    ValueError, TypeError
        If y does not have one label for each position, or a label is missing (None
        or NaN) or not hashable.
    """
    if not is_list(y) or hasattr(y, "columns"):
        raise TypeError(f"{name} must be a list of label sequences, got {y!r:.80}")
    if len(y) != len(lengths):
        raise ValueError(
            f"{name} has {len(y)} {what}s, but X has {len(lengths)} {what}s"
        )
    rows = []
    for i, row in enumerate(y):
        if isinstance(row, np.ndarray):
            if row.ndim != 1:
                raise ValueError(
                    f"{name}[{i}] is {row.ndim}-D: the labels of a {what} must be 1-D"
                )
            # convert labels to Python objects, except times: `tolist` would convert
            # some of them to integers
            row = list(row) if row.dtype.kind in "mM" else row.tolist()
        elif not is_list(row) or hasattr(row, "columns"):
            raise TypeError(
                f"{name}[{i}] is {shown(row)!r:.80}: the labels of a {what} must be a "
                "list or a 1-D array"
            )
        if len(row) != lengths[i]:
            raise ValueError(
                f"{name}[{i}] has {len(row)} labels, but X[{i}] has {lengths[i]} "
                f"{_PLACES[what]}"
            )
        rows.append(row)
    flat = list(chain.from_iterable(rows))
    kinds = set(map(type, flat))
    if any(issubclass(kind, np.generic) for kind in kinds):
        flat = [_plain(x) for x in flat]
    kinds_of_sets = {kind for kind in kinds if issubclass(kind, Set)}
    if kinds_of_sets:
        places = [k for k, label in enumerate(flat) if type(label) in kinds_of_sets]
        owners = np.repeat(np.arange(len(lengths)), lengths)[places].tolist()
        starts = (np.cumsum(lengths) - lengths).tolist()
        for k, i in zip(places, owners, strict=True):
            where = f"at {_PLACES[what][:-1]} {k - starts[i]}"
            flat[k] = _checked_set(flat[k], f"{name}[{i}]", where, sets)
    # only distinct labels are checked; the sequence is located only if one is bad
    try:
        distinct = set(flat)
    except TypeError:
        bad = next(k for k, v in enumerate(flat) if not isinstance(v, Hashable))
        raise TypeError(
            f"{name}[{_sequence_of(bad, lengths)}] has a label that is not hashable: "
            f"{flat[bad]!r:.80}, at {_place(bad, lengths, what)}"
        ) from None
    if unknown:
        distinct.discard(None)
    for entry in distinct:
        for label in entry if isinstance(entry, frozenset) else (entry,):
            # pandas.NA has no truth value in comparisons
            if label is None or type(label).__name__ == "NAType" or label != label:
                bad = next(k for k, v in enumerate(flat) if v is entry)
                raise ValueError(
                    f"{name}[{_sequence_of(bad, lengths)}] has a missing label: "
                    f"{label!r}, at {_place(bad, lengths, what)}"
                )
    return flat


def _plain(label):
    """Return a label as a Python object, except for times, which may lose precision."""
    is_plain = not isinstance(label, np.generic) or isinstance(label, _TIMES)
    return label if is_plain else label.item()


def _checked_set(labels, name, where, allowed):
    """Return the labels of a set as a frozenset, or its only label."""
    if not allowed or any(isinstance(label, Set) for label in labels):
        raise TypeError(
            f"{name} has the set {set(labels)!r:.80} in the place of a single label, "
            f"{where}"
        )
    if not labels or None in labels:
        raise ValueError(
            f"{name} has the set {set(labels)!r:.80} {where}: a set must have labels, "
            "of which one was observed; use None where all are possible"
        )
    found = frozenset(map(_plain, labels))
    return found if len(found) > 1 else next(iter(found))


def first_of(labels):
    """Return a label of a set, the same one in every process."""
    return min(labels, key=_text)


def count_known(known, lengths):
    """Return the number of positions with a known label in each sequence."""
    ends = np.cumsum(lengths, dtype=np.intp)
    n_known_before = np.concatenate([[0], np.cumsum(known)])
    return n_known_before[ends] - n_known_before[ends - lengths]


def check_known(known, lengths, what="sequence"):
    """Raise an error if a sequence has positions, but no known label."""
    blank = np.flatnonzero((count_known(known, lengths) == 0) & np.greater(lengths, 0))
    if len(blank):
        raise ValueError(
            f"y[{blank[0]}] has a missing label: None, at every {_PLACES[what][:-1]}. "
            "At least one label must be known"
        )


def encode_choices(y, lengths, *, blank=False, what="sequence"):
    """Return the distinct labels of many sequences, and their codes.

    Parameters
    ----------
    y : list of array-like of shape (n_positions,), or PackedLabels
        Labels; None stands for an unknown one, and a set, or a frozenset, for one of
        several.
    lengths : array-like of shape (n_sequences,)
        Number of positions of each sequence.
    blank : bool, default=False
        Whether a sequence may have no known label.
    what : {"sequence", "graph"}, default="sequence"
        What an example is called in errors.

    Returns
    -------
    classes : ndarray of shape (n_classes,)
        The labels that occur.
    codes : ndarray of shape (n_positions,), int32
        Code of the label at each position, flat; 0 where a label is not known.
    known : ndarray of shape (n_positions,), bool, or None
        Whether the label is known, which excludes sets; None: all are.
    choices : csr_array of shape (n_positions, n_classes) or None
        Labels of the sets; None without sets.

    Raises
    ------
    ValueError, TypeError
        As in `check_labels`, or if a set is empty.
    """
    if isinstance(y, PackedLabels):
        return *_encode_packed(y, lengths, blank), None
    flat = check_labels(y, lengths, unknown=True, sets=True, what=what)
    entries = dict.fromkeys(flat)
    sets = {x: None for x in entries if isinstance(x, frozenset)}
    single = (x for x in entries if x is not None and x not in sets)
    encoder = LabelEncoder.from_labels(chain(single, *sets))
    known = choices = None
    if sets or None in entries:
        known = np.array([label is not None for label in flat])
        if not blank:
            check_known(known, lengths, what)
    codes = encoder.encode(flat, default=0)
    if sets:
        rows, columns = [], []
        numbers = {labels: encoder.encode(labels).tolist() for labels in sets}
        for t, label in enumerate(flat):
            if label in sets:
                known[t] = False
                rows += [t] * len(label)
                columns += numbers[label]
        shape = len(codes), len(encoder.classes_)
        ones = np.ones(len(rows), np.int8)
        choices = sparse.csr_array((ones, (rows, columns)), shape)
        choices.sort_indices()
    _refuse_padding(encoder.classes_, codes, known, lengths, what)
    return encoder.classes_, codes, known, choices


def _encode_packed(y, lengths, blank):
    """Return classes, codes and known, as `encode_choices` does, for packed labels."""
    y.check_lengths(lengths)
    codes, known = y.codes, None
    if (codes < 0).any():
        known = codes >= 0
        if not blank:
            check_known(known, np.diff(y.offsets))
    occurs = np.zeros(len(y.classes) + 1, dtype=bool)
    # in batches, as NumPy converts a copy of the index array to 64 bits
    for first in range(0, len(codes), _BATCH):
        occurs[codes[first : first + _BATCH]] = True
    used = np.flatnonzero(occurs[:-1])
    encoder = LabelEncoder.from_labels(y.classes[used].tolist())
    numbers = np.zeros(len(y.classes) + 1, dtype=np.int32)
    numbers[used] = encoder.encode(y.classes[used].tolist())
    # unchanged codes are returned as they are, since they may be on disk
    if known is not None or (numbers[:-1] != np.arange(len(y.classes))).any():
        codes = numbers[codes]
    _refuse_padding(encoder.classes_, codes, known, lengths)
    return encoder.classes_, codes, known


def _refuse_padding(classes, codes, known, lengths, what="sequence"):
    """Raise an error if -100 is a label and all other labels are at least 0."""
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
        f"y[{i}] has the label {PADDING} at {_place(k, lengths, what)}, "
        "which other frameworks ignore and which would be a label here: use None for "
        "missing labels, or cut the padding off"
    )


def costs_by_name(class_weight, classes):
    """Return the cost of each label from a dict; 1 for labels that it does not name.

    As in scikit-learn, a name that is not in y is an error unless all labels of y are
    named: then a fold of a cross-validation may lack this label.
    """
    labels = classes.tolist()
    known = set(labels)
    unknown = [name for name in class_weight if name not in known]
    if unknown and not all(label in class_weight for label in labels):
        raise ValueError(
            f"class_weight names {unknown[0]!r:.80}, which is not a label of y: these "
            f"are {cut(', '.join(map(repr, labels[:20])))}"
            f"{', ...' * (len(labels) > 20)}. If a fold of a "
            "cross-validation may lack a label, class_weight must name all others too"
        )
    values = [class_weight.get(label, 1.0) for label in labels]
    if not all(isinstance(value, Real) for value in values):
        raise ValueError("class_weight must map labels to numbers")
    return np.array(values, dtype=np.float64)


def label_costs(class_weight, classes, counts=None):
    """Return the cost of an error for each true label; None if class_weight is None.

    `counts`, the weight of each label in the data, is needed for "balanced".
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, dict):
        costs = costs_by_name(class_weight, classes)
    else:
        # Labels of weight zero have cost zero. Fractions are used, as weights may be
        # near the smallest floating-point number.
        shares = counts / counts.sum()
        costs = np.divide(
            1.0 / len(classes), shares, out=np.zeros(len(classes)), where=shares > 0
        )
    if not np.isfinite(costs).all() or (costs < 0).any():
        k = int(np.argmax(~(np.isfinite(costs) & (costs >= 0))))
        raise ValueError(
            f"class_weight[{classes.tolist()[k]!r:.80}] must be finite and not "
            f"negative, got {costs[k]}"
        )
    if not costs.any():
        raise ValueError("class_weight must not be all 0")
    return costs


def is_list(y):
    """Whether y has entries in a definite order."""
    if isinstance(y, str | bytes | Mapping | Set) or not isinstance(y, Sized):
        return False
    return getattr(y, "ndim", 1) > 0


def is_missing(value):
    """Whether a value is None, NaN, or missing for pandas."""
    if value is None:
        return True
    if isinstance(value, str):
        return False
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA
        return True
    except ValueError:  # an array, whose entries are compared
        return False


def refuse_missing(y):
    """Raise an error if a label in y, one per sample, is None, NaN or the like."""
    if not is_list(y) or getattr(y, "ndim", 1) > 1:
        return
    # scikit-learn checks arrays of numbers
    if isinstance(y, np.ndarray) and y.dtype.kind != "O":
        return
    for i, label in enumerate(y):
        if is_missing(label):
            raise ValueError(f"y[{i}] has a missing label: {label!r}")


def shown(value):
    """Return a value for messages: NumPy numbers as Python numbers, even in lists."""
    if isinstance(value, np.generic) and not isinstance(value, _TIMES):
        return value.item()
    if type(value) in (list, tuple, set, frozenset):
        return type(value)(map(shown, value))
    return value


def _place(k, lengths, what):
    """Return the name of the k-th label's position within its example, for errors."""
    before = int(np.sum(lengths[: _sequence_of(k, lengths)]))
    return f"{_PLACES[what][:-1]} {k - before}"


def _sequence_of(position, lengths):
    return int(np.searchsorted(np.cumsum(lengths), position, "right"))
