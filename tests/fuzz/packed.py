"""Lives of packed sequences: whatever is cut, joined and written, rows are the same."""

import copy
import os
import pickle
import shutil
import tempfile
from pathlib import Path

import numpy as np
from scipy import sparse

from sksstruct import ChainCRF
from sksstruct.utils._mixed import MixedRows
from sksstruct.utils.packed import PackedLabels, PackedSequences
from tests.fuzz._draws import decoded, table_of

NUMBERS = table_of([0.0, 0.0, 0.0, 1.0, -1.0, 0.5], -4, 4, 0.7)
LABELS = ["a", "b", 7, None]
STEPS = ("slice", "slice", "steps", "save", "save", "append", "append", "compact",
         "without_empty", "pickle", "copy", "damage", "fit", "names")  # fmt: skip
FILES = ("header.json", "offsets.npy", "values.npy", "data.npy", "indices.npy",
         "indptr.npy", "dense.npy", "labels.npy", "feature_names.json")  # fmt: skip
_FOLDER = tempfile.TemporaryDirectory()


def _step(draws):
    name = draws.choice(STEPS)
    if name == "slice":
        return name, draws.integer(-3, 6), draws.integer(-3, 8)
    if name == "steps":
        return name, draws.choice([-1, 2, -2, 3])
    if name == "save":
        return name, draws.flag(), draws.flag()
    if name == "append":
        return name, draws.integer(0, 6), draws.flag()
    if name == "damage":
        return (
            name, draws.choice(FILES), draws.choice(["cut", "drop", "byte"]),
            draws.integer(0, 4000), draws.integer(0, 255),
        )  # fmt: skip
    return (name,)


def _case(draws):
    """Sequences with labels, how they are stored, and what is done with them."""
    lengths = [draws.integer(0, 4) for _ in range(draws.integer(1, 6))]
    rows = draws.array((sum(lengths), draws.integer(1, 3)), NUMBERS)
    labels = draws.array(len(rows), np.arange(len(LABELS)))
    form = draws.choice(["dense", "single", "sparse", "wide", "mixed"])
    steps = [_step(draws) for _ in range(draws.integer(1, 8))]
    return lengths, rows, labels, form, steps


cases = decoded(320, _case)


def _stored(rows, form):
    if form == "dense":
        return rows
    if form == "single":
        return rows.astype(np.float32)
    matrix = sparse.csr_array(rows)
    if form == "mixed":
        # the last column is dense
        matrix = sparse.csr_array(rows[:, :-1])
        matrix.resize(rows.shape)
        return MixedRows(matrix, rows[:, -1:], [rows.shape[1] - 1])
    if form == "wide":
        matrix.indices = matrix.indices.astype(np.int64)
        matrix.indptr = matrix.indptr.astype(np.int64)
    return matrix


class Life:
    """Packed sequences beside the lists of arrays that they stand for."""

    def __init__(self, lengths, rows, labels, form):
        self.X = PackedSequences.from_lengths(_stored(rows, form), lengths)
        ends = np.cumsum([0, *lengths])
        pairs = list(zip(ends[:-1], ends[1:], strict=True))
        self.rows = [rows[a:b].astype(np.float32) for a, b in pairs]
        self.y = [[LABELS[c] for c in labels[a:b]] for a, b in pairs]
        # of each sequence, one label must be known
        self.y = [[row[0] or "b", *row[1:]] if row else row for row in self.y]
        self.n_saved = 0

    def check(self):
        """All rows are what they were."""
        X = self.X
        assert len(X) == len(self.rows)
        assert X.lengths.tolist() == [len(rows) for rows in self.rows]
        assert X.offsets[-1] == X.values.shape[0]
        for found, expected in zip(X, self.rows, strict=True):
            found = found.toarray() if sparse.issparse(found) else found
            assert np.array_equal(found, expected), (found, expected)
        if X.is_sparse:
            assert X.values.indices.dtype == np.int32
            assert X.values.has_canonical_format
        for number in (len(X), -len(X) - 1):
            try:
                X[number]
            except IndexError:
                continue
            raise AssertionError(f"there is no sequence {number}")

    def slice(self, first, last):
        self._cut(slice(first, last))

    def steps(self, step):
        self._cut(slice(None, None, step))

    def _cut(self, key):
        self.X, self.rows, self.y = self.X[key], self.rows[key], self.y[key]

    def _path(self):
        self.n_saved += 1
        path = Path(_FOLDER.name) / f"{os.getpid()}-{self.n_saved}"
        shutil.rmtree(path, ignore_errors=True)
        return path

    def save(self, mmap, labels):
        """Written and opened; a second time of the same name is refused."""
        path = self._path()
        self.X.save(path, self.y if labels else None)
        self._open(path, mmap, labels)
        try:
            self.X.save(path)
        except FileExistsError:
            return
        raise AssertionError("a folder was overwritten")

    def _open(self, path, mmap, labels):
        if not labels:
            self.X = PackedSequences.open(path, mmap)
            return
        self.X, y = PackedSequences.open(path, mmap, labels=True)
        assert isinstance(y, PackedLabels)
        assert [row.tolist() for row in y] == self.y, "other labels came back"

    def append(self, n, labels):
        """Written in parts, the second being a part of the first."""
        path = self._path()
        parts = [(self.X, self.y), (self.X[:n], self.y[:n])]
        if not labels:
            parts = [X for X, _ in parts]
        PackedSequences.save_parts(path, iter(parts))
        self.rows, self.y = self.rows + self.rows[:n], self.y + self.y[:n]
        self._open(path, True, labels)

    def compact(self):
        self.X = self.X.compact()

    def without_empty(self):
        self.X, numbers = self.X.without_empty()
        assert numbers.tolist() == [i for i, rows in enumerate(self.rows) if len(rows)]
        self.rows = [self.rows[i] for i in numbers]
        self.y = [self.y[i] for i in numbers]

    def pickle(self):
        self.X = pickle.loads(pickle.dumps(self.X))

    def copy(self):
        self.X = copy.deepcopy(self.X)

    def names(self):
        names = [f"n{k}" for k in range(self.X.n_features)]
        self.X = PackedSequences(self.X.values, self.X.offsets, names)

    def damage(self, name, how, at, byte):
        """A damaged folder is refused, or read as sound sequences."""
        path = self._path()
        self.X.save(path, self.y)
        file = path / name
        if not file.exists():
            return
        if how == "drop":
            file.unlink()
        else:
            text = file.read_bytes()
            at %= len(text)
            rest = b"" if how == "cut" else bytes([byte]) + text[at + 1 :]
            file.write_bytes(text[:at] + rest)
        try:
            X, y = PackedSequences.open(path, at % 2 == 0, labels=True)
        except (ValueError, TypeError, FileNotFoundError):
            return
        assert X.offsets[-1] == X.values.shape[0] == len(y.codes)
        for k in range(len(X)):
            assert X[k].shape == (X.lengths[k], X.n_features)
            assert len(y[k]) == X.lengths[k]

    def fit(self):
        """Training takes them as it takes lists."""
        y = [[label or "a" for label in map(str, row)] for row in self.y]
        fits = []
        # dense columns beside sparse ones are added up in another order
        for X in (self.X.in_one_form(), list(self.X)):
            tagger = ChainCRF(0.5, max_iter=3, random_state=0)
            try:
                fits.append(tagger.fit(X, y).coef_.tobytes())
            except ValueError as error:
                fits.append(type(error))
        assert fits[0] == fits[1], "not as a list"


def check(case):
    """Live a life; after each step the rows are those of the lists."""
    *start, steps = case
    life = Life(*start)
    for name, *arguments in steps:
        getattr(life, name)(*arguments)
        life.check()
    for number in range(1, life.n_saved + 1):
        shutil.rmtree(Path(_FOLDER.name) / f"{os.getpid()}-{number}")
