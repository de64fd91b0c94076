"""Folders of packed sequences: what is read is what was written, mapped or not."""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF
from sksstruct.models.chain.data import TrainingData
from sksstruct.models.tables._feature_rows import FeatureRows
from sksstruct.utils import shards
from sksstruct.utils._layout import is_mapped
from sksstruct.utils._mixed import MixedRows
from sksstruct.utils.packed import PackedLabels, PackedSequences

Y = [["b", "a"], [], ["c", None, "b"], ["a"]]


def packed(form, names=None, seed=0):
    values = np.random.default_rng(seed).normal(size=(6, 4))
    values *= np.abs(values) > 0.5
    offsets = [0, 2, 2, 5, 6]
    if form == "mixed":
        words = sparse.csr_array(values[:, :3].astype(np.float32))
        parts = [PackedSequences(part, offsets) for part in (values[:, 3:], words)]
        X = PackedSequences.hstack(parts)
        return PackedSequences(X.values, offsets, names)
    if form == "csr":
        values = sparse.csr_array(values.astype(np.float32))
    return PackedSequences(values, offsets, names)


def as_lists(y):
    return [list(row) for row in y]


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("form", ["csr", "dense", "mixed"])
def test_round_trip(form, mmap, tmp_path):
    names = ["é", "a=\n", "", "w"] if form == "csr" else None
    X = packed(form, names)
    X.save(tmp_path / "a" / "b", Y)
    back, y = PackedSequences.open(tmp_path / "a" / "b", mmap, labels=True)
    assert repr(back) == repr(X)
    assert as_lists(y) == Y
    assert np.array_equal(back.offsets, X.offsets)
    for one, other in zip(X, back, strict=True):
        difference = one - other
        assert not abs(difference).sum()
    if names:
        assert back.feature_names.tolist() == names
    assert back.is_mapped == mmap
    if form == "mixed":
        assert back.values.columns.tolist() == [0]
        assert (
            is_mapped(back.values.dense) == is_mapped(back.values.sparse.data) == mmap
        )
    data = {"csr": "data", "mixed": "dense"}.get(form)
    data = getattr(back.values, data) if data else back.values
    assert np.asarray(data).flags.writeable != mmap


def test_no_entries_and_no_sequences(tmp_path):
    for number, X in enumerate([
        PackedSequences(sparse.csr_array((2, 3)), [0, 2]),
        PackedSequences(np.zeros((0, 3)), [0]),
    ]):  # fmt: skip
        X.save(tmp_path / str(number))
        assert repr(PackedSequences.open(tmp_path / str(number))) == repr(X)


@pytest.mark.parametrize("loss", ["hinge", "log"])
@pytest.mark.parametrize("form", ["csr", "dense", "mixed"])
def test_training_from_disk_gives_the_same_bits(form, loss, tmp_path):
    X = packed(form)
    y = [[label or "a" for label in row] for row in Y]
    X.save(tmp_path / "x", y)
    back, labels = PackedSequences.open(tmp_path / "x", labels=True)
    fits = [
        ChainCRF(alpha=0.1, loss=loss, solver=solver, random_state=0).fit(*data)
        for data in ((X, y), (back, labels))
        for solver in ("auto", "sdca" if loss == "log" else "gdmm")
    ]
    for one, other in zip(fits[:2], fits[2:], strict=True):
        np.testing.assert_array_equal(one.coef_, other.coef_)
        assert one.classes_.tolist() == other.classes_.tolist()
        assert as_lists(one.predict(X)) == as_lists(other.predict(back))
        assert one.score(X, y) == other.score(back, labels)


def test_labels_of_a_part_are_renumbered():
    X = packed("dense")
    codes = [2, 0, 2, -1, 0, 2]
    y = PackedLabels(codes, X.offsets, ["z", "unused", "b"])
    one, other = (TrainingData.read(X, labels, None) for labels in (y, as_lists(y)))
    assert one.classes.tolist() == other.classes.tolist() == ["b", "z"]
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_array_equal(one.known, other.known)


def test_labels_that_do_not_fit():
    X = packed("dense")
    with pytest.raises(ValueError, match=r"y\[1\] has 1 labels, but X\[1\] has 0"):
        ChainCRF().fit(X, PackedLabels([0] * 6, [0, 2, 3, 5, 6], ["a", "b"]))
    with pytest.raises(ValueError, match=r"y has 1 sequences, but X has 4"):
        ChainCRF().fit(X, PackedLabels([0], [0, 1], ["a"]))
    with pytest.raises(ValueError, match=r"y\[3\] has a missing label"):
        labels = PackedLabels([0, 1, 0, 1, 0, -1], X.offsets, ["a", "b"])
        ChainCRF().fit(X, labels)
    with pytest.raises(ValueError, match="from -1 to 0"):
        PackedLabels([1], [0, 1], ["a"])


def in_place(name):
    """A folder in the place of a file."""

    def damage(folder):
        (folder / name).unlink()
        (folder / name).mkdir()

    return damage


def damage_header(change):
    def damage(folder):
        header = json.loads((folder / "header.json").read_text())
        change(header)
        (folder / "header.json").write_text(json.dumps(header))

    return damage


def truncate(name):
    def damage(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:-9])

    return damage


def write_columns_beyond(folder):
    indices = np.load(folder / "indices.npy")
    indices[1] = 99
    np.save(folder / "indices.npy", indices)


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda f: shutil.rmtree(f), "is not a folder: expected one"),
        (lambda f: (f / "header.json").unlink(), "has no header.json"),
        (lambda f: (f / "data.npy").unlink(), "data.npy is missing; expected <f4"),
        (lambda f: (f / "feature_names.json").unlink(), "feature_names.json is miss"),
        (lambda f: (f / "header.json").write_text("{"), "header.json is damaged"),
        (truncate("data.npy"), "data.npy is truncated or damaged; expected <f4 of sh"),
        (truncate("indptr.npy"), "indptr.npy is truncated"),
        (
            lambda f: np.save(f / "labels.npy", np.zeros(6)),
            r"labels.npy is <f8 of shape \(6,\); expected <i4",
        ),
        (damage_header(lambda h: h.update(version=7)), "version 7 of the format"),
        (damage_header(lambda h: h.update(format="x")), "by another program"),
        (
            damage_header(lambda h: h.pop("n_features")),
            "n_features in .*header.json must be a number; the file lacks it",
        ),
        (damage_header(lambda h: h.pop("classes")), "classes in .* must be a list; th"),
        (
            damage_header(lambda h: h.update(n_features=True)),
            "number; the file has Tru",
        ),
        (damage_header(lambda h: h.update(n_features=-4)), "has n_features -4"),
        (damage_header(lambda h: h.update(has_feature_names=1)), "true or false; .* 1"),
        (damage_header(lambda h: h["classes"].append(None)), "has None as class 3"),
        (damage_header(lambda h: h["classes"].append([1])), r"has \[1\] as class 3"),
        (damage_header(lambda h: h["classes"].append("a")), "has the class 'a' twice"),
        (
            damage_header(lambda h: h["arrays"]["data"].update(dtype=4)),
            "the dtype of data in .* must be a string; the file has 4",
        ),
        (
            damage_header(lambda h: h["arrays"]["data"].update(shape="12")),
            "header.json has the shape '12' of data; expected a list of lengths",
        ),
        (
            damage_header(lambda h: h["arrays"]["data"].update(shape=[None])),
            r"has the shape \[None\] of data",
        ),
        (in_place("header.json"), "header.json is a folder; expected a file"),
        (in_place("data.npy"), "data.npy is a folder; expected <f4 of shape"),
        (in_place("feature_names.json"), "feature_names.json is a folder; expected a"),
        (
            lambda f: (f / "feature_names.json").write_text("[1, 2, 3, 4]"),
            "feature_names.json is damaged: expected a list of names",
        ),
        (lambda f: (f / "header.json").write_text("[" * 10**5), "r.json is damaged"),
        (damage_header(lambda h: h.update(n_features=10**30)), "x is damaged|columns"),
        (damage_header(lambda h: h.update(version="x" * 10**5)), "version .{80} of"),
        (
            damage_header(lambda h: h["arrays"].update({"x" * 10**5: {}})),
            "names the arrays .{80}, which",
        ),
        (damage_header(lambda h: h["arrays"].pop("data")), "not a valid layout"),
        (damage_header(lambda h: h["arrays"]["data"].pop("dtype")), "lacks the dtype"),
        (write_columns_beyond, "is damaged: .*the column index 99"),
        (
            lambda f: np.save(f / "labels.npy", np.full(6, 9, dtype=np.int32)),
            "x is damaged: numbers of labels must be from -1 to 2",
        ),
        # the end of a line in the header, which NumPy reads as Python
        (
            lambda f: (f / "data.npy").write_bytes(
                (f / "data.npy").read_bytes().replace(b"}", b"(", 1)
            ),
            "data.npy is truncated or damaged",
        ),
        (
            lambda f: (f / "feature_names.json").write_text('["a"]'),
            "1 feature names for 4 columns",
        ),
    ],
)
@pytest.mark.parametrize("mmap", [False, True])
def test_damage_is_found(damage, message, mmap, tmp_path):
    packed("csr", ["a", "b", "c", "d"]).save(tmp_path / "x", Y)
    PackedSequences.open(tmp_path / "x", mmap)
    damage(tmp_path / "x")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        PackedSequences.open(tmp_path / "x", mmap, labels=True)


def test_what_cannot_be_saved(tmp_path):
    X = packed("csr")
    X.save(tmp_path / "x")
    with pytest.raises(ValueError, match="has no labels"):
        PackedSequences.open(tmp_path / "x", labels=True)
    with pytest.raises(FileExistsError, match="x exists"):
        X.save(tmp_path / "x")
    labels = [[("b",), ("a",)], [], [("c",)] * 3, [("a",)]]
    with pytest.raises(TypeError, match=r"label \('a',\)"):
        X.save(tmp_path / "y", labels)
    with pytest.raises(ValueError, match="4 sequences"):
        X.save(tmp_path / "y", labels[1:])
    # folders of others stay as they are
    X.save(tmp_path / "z.part")
    X.save(tmp_path / "z")
    assert len(PackedSequences.open(tmp_path / "z.part")) == len(X)
    shutil.rmtree(tmp_path / "z.part")
    shutil.rmtree(tmp_path / "z")
    # nothing half-written is left
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


# ---- parts ----


@pytest.mark.parametrize("form", ["csr", "dense", "mixed"])
def test_parts_are_one_folder(form, tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "_BATCH", 4)
    names = ["p", "q", "r", "s"]
    parts = [packed(form, names, seed) for seed in range(3)]
    # labels in another order, and one that is new
    labels = Y, [["d", "c"], [], ["b", None, "b"], ["d"]], [["a"] * len(x) for x in Y]
    given = iter(zip(parts, labels, strict=True))
    PackedSequences.save_parts(tmp_path / "x", given)
    X, y = PackedSequences.open(tmp_path / "x", labels=True)
    whole = [x for part in parts for x in part]
    assert len(X) == len(whole) == 12 and X.feature_names.tolist() == names
    for one, other in zip(X, whole, strict=True):
        assert not abs(one - other).sum()
    assert as_lists(y) == [list(row) for each in labels for row in each]
    # nothing has to be converted, and so copied
    assert y.classes.tolist() == ["a", "b", "c", "d"]
    if form == "csr":
        assert is_mapped(X.values.indptr) and X.values.indptr.dtype == np.int32
        assert is_mapped(FeatureRows(X).owned[2])


def test_parts_that_differ(tmp_path):
    X = packed("csr", ["a", "b", "c", "d"])
    others = {
        "form": packed("dense", ["a", "b", "c", "d"]),
        "type": PackedSequences(X.values.astype(float), X.offsets, X.feature_names),
        "feature names": packed("csr", ["a", "b", "c", "e"]),
        "number of features": PackedSequences(np.zeros((1, 2)), [0, 1]),
    }
    for what, other in others.items():
        with pytest.raises(ValueError, match=f"the same {what}") as caught:
            PackedSequences.save_parts(tmp_path / "x", [X, X, other])
        assert caught.value.__notes__ == ["in part 2"]
    with pytest.raises(ValueError, match="same outputs"):
        PackedSequences.save_parts(tmp_path / "x", [(X, Y), X])
    with pytest.raises(ValueError, match="no parts"):
        PackedSequences.save_parts(tmp_path / "x", [])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("pointers", [np.int32, np.int64])
def test_pointers_of_any_size_are_read(pointers):
    X, y = packed("csr"), [[label or "a" for label in row] for row in Y]
    X.values.indptr = X.values.indptr.astype(pointers)
    assert FeatureRows(X).owned[2].dtype == pointers
    found = ChainCRF(alpha=0.1, random_state=0).fit(X, y)
    expected = ChainCRF(alpha=0.1, random_state=0).fit(list(packed("csr")), y)
    np.testing.assert_array_equal(found.coef_, expected.coef_)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="not Linux")
def test_slices_of_mapped_features_open_no_files(tmp_path):
    packed("csr").save(tmp_path / "x")
    X = PackedSequences.open(tmp_path / "x")
    before = len(list(Path("/proc/self/fd").iterdir()))
    slices = [X[first : first + 2] for first in (0, 1, 2) * 20]
    assert all(each.is_mapped for each in slices)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_is_kept_of_mapped_features_is_in_files(tmp_path, monkeypatch):
    X, y = packed("csr"), [[label or "a" for label in row] for row in Y]
    X.save(tmp_path / "x", y)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    ChainCRF(alpha=0.1, random_state=0).fit(X, y)
    with pytest.raises(MemoryError, match=r"none: set TMPDIR"):
        ChainCRF(alpha=0.1, random_state=0).fit(
            *PackedSequences.open(tmp_path / "x", labels=True)
        )


def test_an_object_that_is_its_own_base_is_not_mapped():
    """Arrays that Cython allocates are, as older NumPy shows them."""

    class Own:
        @property
        def base(self):
            return self

    assert not is_mapped(Own())


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_header(lambda h: h.pop("dense_columns")), "dense_columns in .* lacks"),
        (damage_header(lambda h: h.update(dense_columns=[0.0])), "must be a list"),
        (damage_header(lambda h: h.update(dense_columns=[1])), "entries in dense col"),
        (damage_header(lambda h: h.update(dense_columns=[2**70])), "among 4 features"),
        (damage_header(lambda h: h.update(dense_columns=[0, 1])), r"expected \(6, 2\)"),
        (damage_header(lambda h: h["arrays"].pop("data")), "not a valid layout"),
    ],
)
def test_damage_of_dense_columns(damage, message, tmp_path):
    packed("mixed").save(tmp_path / "x")
    damage(tmp_path / "x")
    with pytest.raises(ValueError, match=message):
        PackedSequences.open(tmp_path / "x")


def test_parts_with_other_dense_columns(tmp_path):
    X = packed("mixed")
    values = MixedRows(X.values.sparse[:, [1, 0, 2, 3]], X.values.dense, [1])
    parts = [X, PackedSequences(values, X.offsets)]
    with pytest.raises(ValueError, match="the same dense columns"):
        PackedSequences.save_parts(tmp_path / "x", parts)
