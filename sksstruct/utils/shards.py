"""Packed sequences and their labels as a folder of arrays, mapped into memory.

A folder holds plain ``.npy`` files and ``header.json``, which says what they must be.
Mapped arrays are read from disk when they are used, and are no memory of the process.
"""

import json
import os
import shutil
from pathlib import Path
from uuid import uuid4

import numpy as np
from scipy import sparse

from sksstruct.utils.packed import PackedLabels, PackedSequences
from sksstruct.utils.validation import LabelEncoder, check_labels

FORMAT, VERSION = "sksstruct.PackedSequences", 1
# Labels that JSON keeps as they are.
_PLAIN = str, int, float, bool


def save_shard(path, X, y=None):
    """Write `X.save(path, y)`."""
    path = Path(path)
    if path.exists():
        raise FileExistsError(
            f"{path} exists: give the name of a new folder, as arrays that are mapped "
            "must not change"
        )
    arrays, header = _arrays(X), {}
    if y is not None:
        arrays["labels"], header["classes"] = _codes(y, X.lengths)
    # the name stands for a complete folder only; nobody else has this one
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    part.mkdir(parents=True)
    try:
        _write(part, X, arrays, header)
        os.rename(part, path)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _arrays(X):
    """The arrays of packed sequences by name of their files."""
    if X.is_sparse:
        end = X.values.indptr[-1]
        # what is stored beyond the last row is not part of the matrix
        arrays = {
            "data": X.values.data[:end],
            "indices": X.values.indices[:end],
            "indptr": X.values.indptr,
        }
    else:
        arrays = {"values": X.values}
    return {**arrays, "offsets": X.offsets.astype(np.int64, copy=False)}


def _codes(y, lengths):
    """Numbers of labels, -1 for an unknown one, and the labels as JSON has them."""
    if isinstance(y, PackedLabels):
        y.check_lengths(lengths)
        codes, classes = y.codes, y.classes.tolist()
    else:
        flat = check_labels(y, lengths, unknown=True)
        encoder = LabelEncoder.from_labels(x for x in flat if x is not None)
        codes, classes = encoder.encode(flat, default=-1), encoder.classes_.tolist()
    for label in classes:
        if type(label) not in _PLAIN:
            raise TypeError(
                f"y has the label {label!r:.80}: labels on disk are strings or numbers"
            )
    return codes, classes


def _write(folder, X, arrays, header):
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array, allow_pickle=False)
    if X.feature_names is not None:
        names = json.dumps(X.feature_names.tolist(), ensure_ascii=False)
        (folder / "feature_names.json").write_text(names, encoding="utf-8")
    header = {
        "format": FORMAT,
        "version": VERSION,
        "n_features": X.n_features,
        "has_feature_names": X.feature_names is not None,
        "arrays": {
            name: {"dtype": array.dtype.str, "shape": list(array.shape)}
            for name, array in arrays.items()
        },
        **header,
    }
    text = json.dumps(header, indent=1, ensure_ascii=False)
    (folder / "header.json").write_text(text, encoding="utf-8")


def open_shard(path, mmap=True, labels=False):
    """Read `PackedSequences.open(path)`."""
    path = Path(path)
    header = _header(path)
    arrays = {name: _array(path, name, header, mmap) for name in header["arrays"]}
    names = None
    if header["has_feature_names"]:
        names = _json(path / "feature_names.json")
        if not isinstance(names, list) or len(names) != header["n_features"]:
            raise ValueError(
                f"{path / 'feature_names.json'} has {len(names)} feature names for "
                f"{header['n_features']} columns"
            )
    if "values" in arrays:
        values = arrays["values"]
    else:
        shape = len(arrays["indptr"]) - 1, header["n_features"]
        values = sparse.csr_array(
            (arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape
        )
    try:
        X = PackedSequences(values, arrays["offsets"], names)
        if not labels:
            return X
        if "labels" in arrays:
            return X, PackedLabels(arrays["labels"], X.offsets, header["classes"])
    except ValueError as error:
        raise ValueError(f"{path} is damaged: {error}") from None
    raise ValueError(f"{path} has no labels: it was saved without y")


def _header(path):
    """The header of a folder, with all that reading needs."""
    file = path / "header.json"
    if not file.is_file():
        what = "is not a folder" if not path.is_dir() else "has no header.json"
        raise FileNotFoundError(
            f"{path} {what}: expected one that PackedSequences.save wrote"
        )
    header = _json(file)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{file} is of another program: its format is not {FORMAT}")
    if header.get("version") != VERSION:
        raise ValueError(
            f"{file} has version {header.get('version')!r} of the format, this is "
            f"version {VERSION}"
        )
    expected = {"arrays": dict, "n_features": int, "has_feature_names": bool}
    for name, kind in expected.items():
        if not isinstance(header.get(name), kind):
            raise ValueError(f"{file} lacks {name}")
    arrays = set(header["arrays"]) - {"labels"}
    forms = {"values", "offsets"}, {"data", "indices", "indptr", "offsets"}
    if arrays not in forms:
        raise ValueError(f"{file} names the arrays {sorted(arrays)}, which is no form")
    if "labels" in header["arrays"] and not isinstance(header.get("classes"), list):
        raise ValueError(f"{file} lacks classes")
    for name, entry in header["arrays"].items():
        if not isinstance(entry, dict) or not {"dtype", "shape"} <= set(entry):
            raise ValueError(f"{file} lacks the dtype or the shape of {name}")
    return header


def _json(file):
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise FileNotFoundError(f"{file} is missing") from None
    except ValueError:
        raise ValueError(f"{file} is damaged: it is not JSON") from None


def _array(path, name, header, mmap):
    """An array of a folder, read-only where it is mapped."""
    file = path / f"{name}.npy"
    entry = header["arrays"][name]
    expected = f"{entry['dtype']} of shape {tuple(entry['shape'])}"
    if not file.is_file():
        raise FileNotFoundError(f"{file} is missing; expected {expected}")
    # there is nothing to map of an empty array
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
    # not as a memmap, whose every part and sum would be one as well
    return np.asarray(array)
