"""Packed sequences and their labels as a folder of arrays, mapped into memory.

A folder holds plain ``.npy`` files, and ``header.json`` with their types and shapes.
Mapped arrays are read from disk when they are used, and take no memory of the process.
"""

import json
import os
import shutil
from pathlib import Path
from uuid import uuid4

import numpy as np
from scipy import sparse

from sksstruct.utils._files import reading
from sksstruct.utils._mixed import MixedRows
from sksstruct.utils.labels import (
    LabelEncoder,
    PackedLabels,
    check_known,
    check_labels,
)
from sksstruct.utils.sparse_input import canonical_csr

FORMAT, VERSION = "sksstruct.PackedSequences", 1
# Types of labels that JSON preserves.
_PLAIN = str, int, float, bool
# Number of rows that are converted at a time.
_BATCH = 2**20
# Names of JSON types in error messages.
_KINDS = {dict: "a dict", list: "a list", int: "a number", str: "a string",
          bool: "true or false"}  # fmt: skip
# Largest length of an array that a header may have.
_MOST = 2**62
# Arrays with the offsets of rows or sequences.
_POINTERS = "indptr", "offsets"


def save_parts(path, parts):
    """Implement `PackedSequences.save_parts`."""
    path = Path(path)
    if path.exists():
        raise FileExistsError(
            f"{path} exists: give the name of a new folder, as arrays that are mapped "
            "must not change"
        )
    # the final name is given only to complete folders; the temporary name is unique
    folder = path.with_name(f"{path.name}.{uuid4().hex}.part")
    folder.mkdir(parents=True)
    writer = _Writer(folder)
    try:
        for number, part in enumerate(parts):
            X, y = part if isinstance(part, tuple) else (part, None)
            try:
                writer.add(X, y)
            except (ValueError, TypeError) as error:
                if number:
                    error.add_note(f"in part {number}")
                raise
        writer.finish()
        os.rename(folder, path)
    except BaseException:
        writer.close()
        shutil.rmtree(folder, ignore_errors=True)
        raise


class _Writer:
    """Writes parts of packed sequences to a folder, without keeping them in memory.

    Parameters
    ----------
    folder : Path
        An empty folder.
    """

    def __init__(self, folder):
        self.folder, self.files, self.numbers = folder, {}, {}
        # properties that all parts must share
        self.common = self.names = None

    def add(self, X, y):
        """Write a part: packed sequences X, and their labels y or None."""
        names = None if X.feature_names is None else X.feature_names.tolist()
        common = {
            "number of features": X.n_features,
            "feature names": names,
            "form": "sparse rows" if X.is_sparse else "dense rows",
            "dense columns": X.values.columns.tolist() if X.is_mixed else None,
            "type": _types(X),
            "outputs": "no labels" if y is None else "labels",
        }
        if self.common is None:
            self.common, self.names = common, names
        for what, value in self.common.items():
            if common[what] != value:
                raise ValueError(
                    f"parts must have the same {what}: the first part has "
                    f"{value!s:.80}, this part has {common[what]!s:.80}"
                )
        arrays = _arrays(X)
        if y is not None:
            codes, classes = _codes(y, X.lengths)
            numbers = [self.numbers.setdefault(k, len(self.numbers)) for k in classes]
            # the last entry is the code of unknown labels, -1
            arrays["labels"] = np.array([*numbers, -1], dtype=np.int32)[codes]
        for name, array in arrays.items():
            if name not in self.files:
                self.files[name] = _GrowingFile(self.folder / f"{name}.npy", array)
            elif name in _POINTERS:
                # pointers of this part continue from the last pointer in the file
                array = array[1:] + self.files[name].last
            self.files[name].add(array)

    def close(self):
        """Close all files."""
        for file in self.files.values():
            file.close()

    def finish(self):
        """Write the files that depend on all parts."""
        if self.common is None:
            raise ValueError("there are no parts: at least one is required")
        self.close()
        pointers = self.files.get("indptr")
        if pointers is not None and pointers.last <= np.iinfo(np.int32).max:
            # scipy uses 32 bits if possible, and would convert the pointers in each
            # read
            pointers.rewrite(lambda rows: rows.astype(np.int32))
        if "labels" in self.files:
            self._sort_labels()
        if self.names is not None:
            names = json.dumps(self.names, ensure_ascii=False)
            (self.folder / "feature_names.json").write_text(names, encoding="utf-8")
        header = {
            "format": FORMAT,
            "version": VERSION,
            "n_features": self.common["number of features"],
            "has_feature_names": self.names is not None,
            "arrays": {
                name: {"dtype": file.dtype.str, "shape": list(file.shape)}
                for name, file in self.files.items()
            },
        }
        if "labels" in self.files:
            header["classes"] = list(self.numbers)
        if "dense" in self.files:
            header["dense_columns"] = self.common["dense columns"]
        text = json.dumps(header, indent=1, ensure_ascii=False)
        (self.folder / "header.json").write_text(text, encoding="utf-8")

    def _sort_labels(self):
        """Number labels in sorted order, so that training need not renumber a copy."""
        encoder = LabelEncoder.from_labels(self.numbers)
        numbers = encoder.encode(list(self.numbers))
        if (numbers != np.arange(len(numbers))).any():
            # the last entry is the code of unknown labels, -1
            numbers = np.append(numbers, -1).astype(np.int32)
            self.files["labels"].rewrite(lambda codes: numbers[codes])
            self.numbers = dict.fromkeys(encoder.classes_.tolist())


class _GrowingFile:
    """A ``.npy`` file of an array whose rows are written in parts.

    Parameters
    ----------
    path : Path
        Name of the file.
    array : ndarray
        Array with the type and the row length of the file.
    """

    def __init__(self, path, array):
        self.path, self.dtype = path, array.dtype
        self.shape, self.last = (0, *array.shape[1:]), 0
        self._file = path.open("wb")
        self._write_header()

    def _write_header(self):
        header = {
            "descr": np.lib.format.dtype_to_descr(self.dtype),
            "fortran_order": False,
            "shape": self.shape,
        }
        # NumPy pads the header, so that any number of rows fits later
        np.lib.format.write_array_header_1_0(self._file, header)

    def add(self, array):
        """Write more rows."""
        np.ascontiguousarray(array, dtype=self.dtype).tofile(self._file)
        self.shape = (self.shape[0] + len(array), *self.shape[1:])
        if array.ndim == 1 and len(array):
            self.last = array[-1]

    def close(self):
        """Write the final number of rows, unless the file is closed already."""
        if not self._file.closed:
            self._file.seek(0)
            self._write_header()
            self._file.close()

    def rewrite(self, convert):
        """Replace all rows by the results of a function."""
        rows = np.load(self.path, mmap_mode="r")
        new_file = _GrowingFile(self.path.with_suffix(".part"), convert(rows[:0]))
        for first in range(0, len(rows), _BATCH):
            new_file.add(convert(rows[first : first + _BATCH]))
        new_file.close()
        os.replace(new_file.path, self.path)
        self.dtype = new_file.dtype


def _arrays(X):
    """Return the arrays of packed sequences by the names of their files."""
    if X.is_sparse or X.is_mixed:
        rows = X.values.sparse if X.is_mixed else X.values
        end = rows.indptr[-1]
        # entries stored beyond the last row are not part of the matrix
        arrays = {
            "data": rows.data[:end],
            "indices": rows.indices[:end],
            "indptr": rows.indptr.astype(np.int64, copy=False),
        }
        if X.is_mixed:
            arrays["dense"] = X.values.dense
    else:
        arrays = {"values": X.values}
    return {**arrays, "offsets": X.offsets.astype(np.int64, copy=False)}


def _types(X):
    """Return the dtypes of the feature values, as strings: of CSR, of dense columns."""
    parts = (X.values.sparse, X.values.dense) if X.is_mixed else (X.values,)
    return [part.dtype.str for part in parts]


def _codes(y, lengths):
    """Return codes of labels, -1 for unknown ones, and the labels as JSON values."""
    if isinstance(y, PackedLabels):
        y.check_lengths(lengths)
        codes, classes = y.codes, y.classes.tolist()
    else:
        flat = check_labels(y, lengths, unknown=True)
        check_known([label is not None for label in flat], lengths)
        encoder = LabelEncoder.from_labels(x for x in flat if x is not None)
        codes, classes = encoder.encode(flat, default=-1), encoder.classes_.tolist()
    for label in classes:
        if type(label) not in _PLAIN:
            raise TypeError(
                f"y has the label {label!r:.80}: labels on disk are strings or numbers"
            )
    return codes, classes


def open_shard(pack, path, mmap=True, labels=False):
    """Implement `PackedSequences.open`; `pack` is the class of the result."""
    path = Path(path)
    header = _header(path)
    arrays = {name: _array(path, name, header, mmap) for name in header["arrays"]}
    names = None
    if header["has_feature_names"]:
        file = path / "feature_names.json"
        names = _json(file)
        if not isinstance(names, list) or not all(type(x) is str for x in names):
            raise ValueError(f"{file} is damaged: expected a list of names")
        if len(names) != header["n_features"]:
            raise ValueError(
                f"{file} has {len(names)} feature names for {header['n_features']} "
                "columns"
            )
    with reading(path, " is damaged"):
        if "values" in arrays:
            values = arrays["values"]
        else:
            shape = len(arrays["indptr"]) - 1, header["n_features"]
            values = sparse.csr_array(
                (arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape
            )
        if "dense" in arrays:
            values = canonical_csr(values)
            values = MixedRows.checked(values, arrays["dense"], header["dense_columns"])
        X = pack(values, arrays["offsets"], names)
        if not labels:
            return X
        if "labels" in arrays:
            return X, PackedLabels(arrays["labels"], X.offsets, header["classes"])
    raise ValueError(f"{path} has no labels: it was saved without y")


def _header(path):
    """Return the header of a folder, after checking all that reading needs."""
    file = path / "header.json"
    if not file.exists():
        what = "is not a folder" if not path.is_dir() else "has no header.json"
        raise FileNotFoundError(
            f"{path} {what}: expected one that PackedSequences.save wrote"
        )
    header = _json(file)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(
            f"{file} was written by another program: its format is not {FORMAT}"
        )
    if header.get("version") != VERSION:
        raise ValueError(
            f"{file} has version {header.get('version')!r:.80} of the format, this is "
            f"version {VERSION}"
        )
    expected = {"arrays": dict, "n_features": int, "has_feature_names": bool}
    for name, kind in expected.items():
        # compare the types: isinstance would accept a bool as an int
        if type(header.get(name)) is not kind:
            raise _not_a(file, name, kind, header.get(name))
    if header["n_features"] < 0:
        raise ValueError(f"{file} has n_features {header['n_features']}")
    arrays = set(header["arrays"]) - {"labels"}
    csr = {"data", "indices", "indptr", "offsets"}
    if arrays not in ({"values", "offsets"}, csr, csr | {"dense"}):
        raise ValueError(
            f"{file} names the arrays {sorted(arrays)!r:.80}, which is not a "
            "valid layout"
        )
    if "dense" in arrays:
        columns = header.get("dense_columns")
        if type(columns) is not list or not all(type(k) is int for k in columns):
            raise _not_a(file, "dense_columns", list, columns)
    if "labels" in header["arrays"]:
        _check_classes(file, header.get("classes"))
    for name, entry in header["arrays"].items():
        if not isinstance(entry, dict) or not {"dtype", "shape"} <= set(entry):
            raise ValueError(f"{file} lacks the dtype or the shape of {name}")
        shape = entry["shape"]
        if type(entry["dtype"]) is not str:
            raise _not_a(file, f"the dtype of {name}", str, entry["dtype"])
        if type(shape) is not list or not all(
            type(n) is int and 0 <= n <= _MOST for n in shape
        ):
            raise ValueError(
                f"{file} has the shape {shape!r:.80} of {name}; expected a list of "
                "lengths"
            )
    return header


def _check_classes(file, classes):
    """Raise an error if the classes are not distinct labels."""
    if type(classes) is not list:
        raise _not_a(file, "classes", list, classes)
    labels_seen = set()
    for k, label in enumerate(classes):
        if type(label) not in _PLAIN:
            raise ValueError(
                f"{file} has {label!r:.80} as class {k}: labels on disk are strings or "
                "numbers"
            )
        if label in labels_seen:
            raise ValueError(f"{file} has the class {label!r:.80} twice")
        labels_seen.add(label)


def _not_a(file, name, kind, value):
    """Return the error for a header's entry that is missing or of another type."""
    found = "lacks it" if value is None else f"has {value!r:.80}"
    return ValueError(f"{name} in {file} must be {_KINDS[kind]}; the file {found}")


def _json(file):
    if file.is_dir():
        raise ValueError(f"{file} is a folder; expected a file")
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{file} is missing") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{file} is damaged: it is not JSON") from None


def _array(path, name, header, mmap):
    """Return an array of a folder, read-only if it is mapped."""
    file = path / f"{name}.npy"
    entry = header["arrays"][name]
    expected = f"{entry['dtype']:.80} of shape {tuple(entry['shape'])}"
    if file.is_dir():
        raise ValueError(f"{file} is a folder; expected {expected}")
    if not file.is_file():
        raise FileNotFoundError(f"{file} is missing; expected {expected}")
    # an empty array cannot be mapped
    mode = "r" if mmap and np.prod(entry["shape"]) else None
    try:
        array = np.load(file, mmap_mode=mode, allow_pickle=False)
    except Exception as error:  # NumPy parses the header of the file as Python
        raise ValueError(
            f"{file} is truncated or damaged; expected {expected}: {error}"
        ) from None
    if array.dtype.str != entry["dtype"] or list(array.shape) != entry["shape"]:
        raise ValueError(
            f"{file} is {array.dtype.str} of shape {array.shape}; expected {expected}"
        )
    # a plain array, as parts and sums of a memmap would be memmaps too
    return np.asarray(array)
