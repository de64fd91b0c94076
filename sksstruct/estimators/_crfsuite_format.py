"""CRFsuite's binary model files: numbers are little-endian, offsets count bytes.

The header has the offsets of five chunks: features, labels, attributes, and, for each
label and for each attribute, the features that start at the label or attribute. Labels
and attributes are databases of strings with hash tables (CQDB). CRFsuite reads files
without any checks; `read_model` checks every offset, length and number before use.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import sparse

from sksstruct.utils._files import reading

_HEADER = struct.Struct("<4sI4sI3I5I")
_MAGIC, _TYPE, _VERSION = b"lCRF", b"FOMC", 100
_STATE, _TRANSITION = 0, 1
# Record of a feature: its kind (_STATE or _TRANSITION), the number of its source, which
# is an attribute or a label, the number of its label, and its weight.
_FEATURE = np.dtype("<u4, <u4, <u4, <f8")
_FEATURE.names = "type", "src", "dst", "weight"
_CQDB, _BYTE_ORDER = struct.Struct("<4s5I"), 0x62445371
_N_TABLES = 256
# Offset of the first string record from the start of a CQDB database.
_FIRST_STRING = _CQDB.size + 8 * _N_TABLES
# Number of labels that CRFsuite adds to the chunk of label references; they have no
# features.
_MORE_LABELS = 2


@dataclass
class CRFsuiteModel:
    """Content of a CRFsuite model file: labels, attributes and weights.

    Parameters
    ----------
    labels, attributes : list of str
        Names of the labels and of the attributes, by number.
    states : csr_array of shape (n_attributes, n_labels)
        Weights of attributes and labels.
    transitions : csr_array of shape (n_labels, n_labels)
        Weights of pairs of labels, from -> to.
    """

    labels: list
    attributes: list
    states: sparse.csr_array
    transitions: sparse.csr_array


# ---- writing ----


def write_model(path, model):
    """Write a CRFsuite model to a binary file.

    Parameters
    ----------
    path : path-like
        The file.
    model : CRFsuiteModel
        The model. Strings must be distinct.
    """
    states, transitions = model.states, model.transitions
    features = np.concatenate(
        [_features(_STATE, states), _features(_TRANSITION, transitions)]
    )
    size = 12 + features.nbytes
    chunks = [struct.pack("<4sII", b"FEAT", size, len(features)) + features.tobytes()]
    chunks += [_strings(model.labels, "label"), _strings(model.attributes, "feature")]
    # chunks of references begin at multiples of 4 bytes
    chunks[-1] += bytes(-sum(map(len, chunks)) % 4)
    offsets = _HEADER.size + np.cumsum([0, *map(len, chunks)])
    chunks.append(
        _references(b"LFRF", offsets[3], transitions.indptr, states.nnz, _MORE_LABELS)
    )
    offsets = np.append(offsets, offsets[3] + len(chunks[-1]))
    chunks.append(_references(b"AFRF", offsets[4], states.indptr, 0, 0))
    size = int(offsets[4]) + len(chunks[-1])
    if size >= 2**32:
        raise ValueError(
            f"files of CRFsuite have less than 4 GiB, this one would have {size} bytes"
        )
    # CRFsuite writes 0 for the number of features, and reads it from the FEAT chunk
    sizes = 0, len(model.labels), len(model.attributes)
    header = _HEADER.pack(_MAGIC, size, _TYPE, _VERSION, *sizes, *offsets.tolist())
    with open(path, "wb") as file:
        file.write(header)
        file.writelines(chunks)


def _features(kind, table):
    features = np.empty(table.nnz, dtype=_FEATURE)
    features["type"] = kind
    features["src"] = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
    features["dst"], features["weight"] = table.indices, table.data
    return features


def _references(chunk, start, indptr, first, more):
    """Chunk that lists, for each label or attribute, the numbers of its features.

    The chunk has the offset of each list, then the lists: the length of the list, and
    the numbers of the features. Features are numbered from `first` on. `indptr` has the
    bounds of the lists; `more` offsets of zero follow, for labels without features.
    """
    n = len(indptr) - 1
    heads = indptr[:-1].astype(np.int64) + np.arange(n)
    numbers = np.empty(n + int(indptr[-1]), dtype="<u4")
    is_head = np.zeros(len(numbers), dtype=bool)
    is_head[heads] = True
    numbers[heads] = np.diff(indptr)
    numbers[~is_head] = first + np.arange(int(indptr[-1]))
    body = 12 + 4 * (n + more)
    places = np.zeros(n + more, dtype="<u4")
    places[:n] = int(start) + body + 4 * heads
    head = struct.pack("<4sII", chunk, body + numbers.nbytes, n + more)
    return head + places.tobytes() + numbers.tobytes()


def _strings(names, what):
    """A CQDB database of strings, numbered by their index in `names`."""
    keys = []
    for name in names:
        if "\0" in name:
            raise ValueError(
                f"the {what} {name!r:.80} has a zero character, where CRFsuite ends "
                "strings: rename it"
            )
        try:
            keys.append(name.encode() + b"\0")
        except UnicodeEncodeError:
            raise ValueError(
                f"the {what} {name!r:.80} has no UTF-8 encoding: rename it"
            ) from None
    lengths = np.fromiter(map(len, keys), np.int64, len(keys))
    ends = _FIRST_STRING + np.cumsum(8 + lengths)
    places = ends - 8 - lengths
    records = b"".join(
        struct.pack("<II", k, len(key)) + key for k, key in enumerate(keys)
    )
    slots, counts = _hash_tables(_hashes(keys, lengths), places)
    first = _FIRST_STRING + len(records)
    tables = np.zeros((_N_TABLES, 2), dtype="<u4")
    tables[:, 1] = 2 * counts
    tables[:, 0] = np.where(counts, first + 16 * (np.cumsum(counts) - counts), 0)
    links = first + slots.nbytes
    size = links + 4 * len(keys)
    head = _CQDB.pack(
        b"CQDB", size, 0, _BYTE_ORDER, len(keys), links if keys else 0
    )  # fmt: skip
    parts = head, tables.tobytes(), records, slots.tobytes()
    return b"".join(parts) + places.astype("<u4").tobytes()


def _hash_tables(hashes, places):
    """Slots of the hash tables, which are half full, and number of strings in each.

    Collisions are resolved by linear probing: of several strings at the same free slot,
    the first is stored there, and every other string tries the next slot of its table.
    """
    table = hashes % _N_TABLES
    counts = np.bincount(table, minlength=_N_TABLES)
    sizes = 2 * counts
    starts = (np.cumsum(sizes) - sizes)[table]
    sizes = sizes[table]
    slots = np.zeros((2 * len(hashes), 2), dtype="<u4")
    step, pending = (hashes >> 8) % np.maximum(sizes, 1), np.arange(len(hashes))
    while len(pending):
        slot = starts[pending] + step[pending]
        free = slots[slot, 1] == 0
        filled, first = np.unique(slot[free], return_index=True)
        stored = pending[free][first]
        slots[filled, 0], slots[filled, 1] = hashes[stored], places[stored]
        pending = np.setdiff1d(pending, stored, assume_unique=True)
        step[pending] = (step[pending] + 1) % sizes[pending]
    return slots, counts


def _hashes(keys, lengths):
    """B. Jenkins' hash of each string ("lookup3", hashlittle, in the public domain)."""
    hashes = np.zeros(len(keys), dtype=np.int64)
    # strings with the same number of blocks of three words are hashed together, padded
    # with zeros
    blocks = -(-lengths // 12)
    for n in np.unique(blocks).tolist():
        chosen = np.flatnonzero(blocks == n)
        text = b"".join(keys[k].ljust(12 * n, b"\0") for k in chosen.tolist())
        words = np.frombuffer(text, "<u4").reshape(-1, n, 3)
        start = (0xDEADBEEF + lengths[chosen]).astype(np.uint32)
        a, b, c = start, start.copy(), start.copy()
        for block in range(n):
            a, b, c = (x + words[:, block, k] for k, x in enumerate((a, b, c)))
            if block < n - 1:
                a, b, c = _mixed(a, b, c)
        hashes[chosen] = _finished(a, b, c)
    return hashes


def _rotated(x, k):
    return (x << np.uint32(k)) | (x >> np.uint32(32 - k))


def _mixed(a, b, c):
    for k in (4, 6, 8, 16, 19, 4):
        a = (a - c) ^ _rotated(c, k)
        a, b, c = b, c + b, a
    return a, b, c


def _finished(a, b, c):
    for k in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _rotated(b, k)
        a, b, c = b, c, a
    return b


# ---- reading ----


def read_model(path):
    """Read a CRFsuite model from a binary file.

    Parameters
    ----------
    path : path-like
        The file.

    Returns
    -------
    model : CRFsuiteModel
        The model.

    Raises
    ------
    ValueError
        If the file is not a model of CRFsuite, or is damaged. The message says where.
    """
    with reading(path, " is no model file of CRFsuite"):
        return _Reader(Path(path).read_bytes()).model()


class _Reader:
    """Reads the bytes of a model file; an offset outside the file is an error."""

    def __init__(self, data):
        self.data, self.bytes = data, np.frombuffer(data, np.uint8)

    def model(self):
        """Read the `CRFsuiteModel` from the file, and check all of the file."""
        magic, size, kind, version, n_features, n_labels, n_attributes, *offsets = (
            self.structure(_HEADER, 0, "the header")
        )
        if (magic, kind, version) != (_MAGIC, _TYPE, _VERSION):
            raise ValueError(
                f"it begins with {magic!r}, {kind!r}, version {version}; expected "
                f"{_MAGIC!r}, {_TYPE!r}, version {_VERSION}"
            )
        if size != len(self.data):
            raise ValueError(f"it should have {size} bytes and has {len(self.data)}")
        if n_labels < 1:
            raise ValueError("it has no labels")
        features = self.features(offsets[0])
        if n_features not in (0, len(features)):
            raise ValueError(f"the header has {n_features} features, byte 16")
        labels = self.strings(offsets[1], n_labels, "labels")
        attributes = self.strings(offsets[2], n_attributes, "attributes")
        used = np.zeros(len(features), dtype=np.int64)
        tables = []
        for kind, chunk, start, n, more in (
            (_TRANSITION, b"LFRF", offsets[3], n_labels, _MORE_LABELS),
            (_STATE, b"AFRF", offsets[4], n_attributes, 0),
        ):
            owners, numbers = self.references(start, chunk, n, more, len(features))
            referenced = features[numbers]
            if (referenced["type"] != kind).any() or (
                referenced["src"] != owners
            ).any():
                raise ValueError(
                    f"{chunk.decode()} refers to features of another label or attribute"
                )
            if len(referenced) and referenced["dst"].max() >= n_labels:
                raise ValueError(
                    f"{chunk.decode()} refers to a feature of label "
                    f"{referenced['dst'].max()}, and there are {n_labels} labels"
                )
            used += np.bincount(numbers, minlength=len(features))
            parts = referenced["weight"].astype(np.float64), (owners, referenced["dst"])
            tables.append(sparse.coo_array(parts, shape=(n, n_labels)).tocsr())
        if (used != 1).any() or sum(table.nnz for table in tables) != len(features):
            raise ValueError(
                "LFRF and AFRF must refer to every feature once, and refer to some "
                "twice or never"
            )
        return CRFsuiteModel(labels, attributes, tables[1], tables[0])

    def check(self, start, size, what):
        """Raise an error if bytes `start` to `start + size` are not in the file."""
        if start + size > len(self.data):
            raise ValueError(
                f"{what} would be at bytes {start} to {start + size}, and the file has "
                f"{len(self.data)}"
            )

    def structure(self, form, start, what):
        """Unpack the fields of the `struct.Struct` `form` at byte `start`."""
        self.check(start, form.size, what)
        return form.unpack_from(self.data, start)

    def array(self, dtype, start, n, what):
        """Array of the `n` consecutive items of type `dtype` from byte `start` on."""
        dtype = np.dtype(dtype)
        self.check(start, n * dtype.itemsize, what)
        return np.frombuffer(self.data, dtype, n, start)

    def numbers_at(self, places, what):
        """The 32-bit numbers at the byte offsets `places`, which may be unaligned."""
        if len(places) == 0:
            return np.zeros(0, dtype=np.int64)
        self.check(int(places.max()), 4, what)
        rows = self.bytes[places[:, None] + np.arange(4)]
        return rows.view("<u4").ravel().astype(np.int64)

    def chunk(self, start, name):
        """Check the name of the chunk at byte `start`; return its number of items."""
        found, _, n = self.structure(struct.Struct("<4sII"), start, name.decode())
        if found != name:
            raise ValueError(
                f"byte {start} has {found!r} where the chunk {name!r} should begin"
            )
        return n

    def features(self, start):
        """Read the FEAT chunk: kind, source, label and weight of each feature."""
        n = self.chunk(start, b"FEAT")
        features = self.array(_FEATURE, start + 12, n, "features")
        wrong = np.flatnonzero(~np.isfinite(features["weight"]))
        if len(wrong):
            raise ValueError(
                f"a weight is not finite, byte {start + 24 + 20 * wrong[0]}"
            )
        return features

    def references(self, start, chunk, n, more, n_features):
        """Numbers of the label or attribute, and of the feature, of each reference."""
        if self.chunk(start, chunk) != n + more:
            raise ValueError(
                f"{chunk.decode()} must have {n + more} rows, byte {start + 8}"
            )
        what = f"features of {chunk.decode()}"
        places = self.array("<u4", start + 12, n, what).astype(np.int64)
        counts = self.numbers_at(places, what)
        total = int(counts.sum())
        if total > n_features:
            raise ValueError(
                f"{what} must be at most {n_features}, the number of features, got "
                f"{total}"
            )
        owners = np.repeat(np.arange(n), counts)
        within = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
        numbers = self.numbers_at(places[owners] + 4 + 4 * within, what)
        if total and numbers.max() >= n_features:
            raise ValueError(
                f"{what} must be numbered below {n_features}, got {numbers.max()}"
            )
        return owners, numbers

    def strings(self, start, n, what):
        """Read the `n` strings of the CQDB database at byte `start`."""
        magic, size, _, order, n_links, links = self.structure(_CQDB, start, what)
        if magic != b"CQDB" or order != _BYTE_ORDER or n_links != n:
            raise ValueError(
                f"byte {start} must be the head of a database of {n} {what}, and is not"
            )
        self.check(start, size, what)
        places = start + self.array("<u4", start + links, n, what).astype(np.int64)
        numbers = self.numbers_at(places, what)
        lengths = self.numbers_at(places + 4, what)
        # strings that do not overlap have a total length of at most the chunk's size
        if (numbers != np.arange(n)).any() or (lengths < 1).any():
            raise ValueError(f"{what} have wrong numbers or lengths")
        if lengths.sum() > size:
            raise ValueError(f"{what} are longer than their chunk, byte {start}")
        ends = places + 8 + lengths
        self.check(0, int(ends.max(initial=0)), what)
        names = []
        for a, b in zip((places + 8).tolist(), ends.tolist(), strict=True):
            text = self.data[a:b]
            if text.find(b"\0") != len(text) - 1:
                raise ValueError(f"a string does not end where it should, byte {b - 1}")
            try:
                names.append(text[:-1].decode())
            except UnicodeDecodeError:
                raise ValueError(f"a string is not UTF-8, byte {a}") from None
        if len(set(names)) != n:
            raise ValueError(f"{what} occur twice")
        return names
