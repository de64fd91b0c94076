import os
import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pytest
from scipy import sparse

from sksstruct.models.graph.inputs import check_graph, feature_rows
from sksstruct.utils.packed import PackedSequences
from sksstruct.utils.validation import (
    LabelEncoder,
    check_labels,
    check_sequences,
    encode_choices,
)


class TestCheckSequences:
    def test_stacks_dense(self):
        packed = check_sequences([[[1, 2]], [[3, 4], [5, 6]]])
        np.testing.assert_array_equal(packed.values, [[1, 2], [3, 4], [5, 6]])
        assert packed.values.dtype == np.float64
        assert packed.offsets.tolist() == [0, 1, 3]

    def test_float32_only_if_all_are(self):
        a, b = np.ones((1, 2), np.float32), np.ones((1, 2))
        assert check_sequences([a, a]).values.dtype == np.float32
        assert check_sequences([a, b]).values.dtype == np.float64
        assert check_sequences([sparse.csr_array(a)]).values.dtype == np.float32

    @pytest.mark.parametrize("container", [sparse.csr_array, sparse.csc_matrix])
    def test_stacks_sparse(self, container):
        dense = [np.array([[0.0, 1.0], [2.0, 0.0]]), np.zeros((1, 2)), np.eye(2)]
        packed = check_sequences([container(x) for x in dense])
        np.testing.assert_array_equal(packed.values.toarray(), np.vstack(dense))
        assert packed.values.has_canonical_format

    def test_sparse_with_room_to_spare(self):
        """Stored entries beyond indptr[-1] do not count."""
        item = sparse.csr_array((np.ones(3), np.array([0, 1, 1]), np.array([0, 2])))
        item = sparse.csr_array((1, 2))
        item.data, item.indices = np.ones(3), np.array([0, 1, 1], dtype=np.int32)
        item.indptr = np.array([0, 2], dtype=np.int32)
        packed = check_sequences([item, sparse.csr_array(np.eye(2))])
        np.testing.assert_array_equal(packed.values.toarray(), [[1, 1], [1, 0], [0, 1]])

    def test_packed_is_taken_as_it_is(self):
        packed = PackedSequences(np.ones((3, 2)), [0, 1, 3])
        assert check_sequences(packed) is packed

    def test_overflowing_sum_is_not_taken_for_infinity(self):
        check_sequences([np.full((4, 2), 1e308)])

    @pytest.mark.parametrize(
        ("X", "error", "message"),
        [
            (sparse.csr_array(np.eye(3)), TypeError, "single"),
            ({"a": 1}, TypeError, "single dict"),
            (3, TypeError, "X is a int"),
            ([[1.0], [2.0]], ValueError, r"X\[0\] is 1-D: .*; for one sequence pass"),
            (np.eye(3), ValueError, r"2-D array: .* For one sequence pass \[X\]"),
            ([{"a": 1}], TypeError, r"X\[0\] has a dict.*make_tagger"),
            (["ab"], TypeError, r"X\[0\] has a str.*make_tagger"),
            ([["a", "b"]], TypeError, r"X\[0\] has a str.*SequenceVectorizer"),
            ([[["a", "b"], ["c"]]], TypeError, r"X\[0\] has a str"),
            ([[], [[{"a"}], [{"b"}]]], TypeError, r"X\[1\] has a str"),
            ([[{"a": 1}, {}]], TypeError, r"X\[0\] has a dict"),
            ([np.array([["a"]])], TypeError, r"X\[0\] has a str"),
            ([[[None]]], TypeError, r"X\[0\] has dtype object"),
            ([[[1, 2], [3]]], ValueError, r"X\[0\] is not a matrix"),
            ([], ValueError, "X is empty"),
            (np.ones((0, 2, 3)), ValueError, "X is empty"),
            ([[], ()], ValueError, "X has no positions"),
            (np.ones((2, 0, 3)), ValueError, "X has no positions"),
            ([sparse.csr_array((0, 3))], ValueError, "X has no positions"),
            ([[[], []]], ValueError, r"X\[0\] has 0 features"),
            ([[], np.ones((1, 2)), np.ones(2)], ValueError, r"X\[2\] is 1-D"),
            ([[], np.ones((1, 2)), np.ones((0, 3))], ValueError, r"X\[2\] has 3 feat"),
            ([np.ones((2, 0))], ValueError, "0 features"),
            ([np.ma.ones((2, 2))], TypeError, r"X\[0\] is a masked array"),
            (np.ma.ones((2, 2, 2)), TypeError, "X is a masked array"),
            ([np.ones((1, 2)), np.ones((1, 3))], ValueError, r"X\[1\] has 3 features"),
            (
                PackedSequences(np.ones((0, 2)), [0, 0, 0]),
                ValueError,
                "X has no positions",
            ),
            (
                [
                    [],
                    np.ones((1, 2)),
                    sparse.csr_array(np.eye(2)),
                ],
                TypeError,
                r"X\[2\] is sparse while X\[1\]",
            ),
            (
                [np.zeros((0, 2)), [], np.full((1, 2), np.nan)],
                ValueError,
                r"X\[2\] contains NaN or infinity, at position 0",
            ),
            (
                [np.ones((2, 2)), np.array([[0, 0], [0, np.nan]])],
                ValueError,
                r"X\[1\] contains NaN or infinity, at position 1",
            ),
            (
                [np.ones((2, 2)), sparse.csr_array(np.array([[0, 0], [0, np.inf]]))],
                TypeError,
                r"X\[1\] is sparse while X\[0\]",
            ),
            (
                [
                    sparse.csr_array(np.eye(2)),
                    sparse.csr_array(np.array([[0, 0], [0, np.inf]])),
                ],
                ValueError,
                r"X\[1\] contains NaN or infinity, at position 1",
            ),
        ],
        ids=str,
    )
    def test_errors(self, X, error, message):
        with pytest.raises(error, match=message):
            check_sequences(X)

    @pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
    def test_empty_sequences(self, container):
        dense = np.eye(2, dtype=np.float32)
        packed = check_sequences([[], container(dense), container(dense[:0]), ()])
        assert packed.offsets.tolist() == [0, 0, 2, 2, 2]
        assert packed.values.dtype == np.float32
        assert packed.is_sparse == (container is sparse.csr_array)
        rest, numbers = packed.without_empty()
        assert rest.offsets.tolist() == [0, 2] and numbers.tolist() == [1]
        assert rest.without_empty()[0] is rest

    @pytest.mark.parametrize(
        "X", [[[], []], np.zeros((2, 0, 3)), [sparse.csr_array((0, 3))] * 2], ids=str
    )
    def test_all_empty_where_the_number_of_features_is_known(self, X):
        packed = check_sequences(X, n_features=3, all_empty=True)
        assert packed.offsets.tolist() == [0, 0, 0] and packed.n_features == 3
        assert [len(part) for part in packed.without_empty()] == [0, 0]

    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_data_frames(self, library):
        frames = pytest.importorskip(library)
        X = [frames.DataFrame({"a": [1.0, 2.0], "b": [3, 4]}) for _ in range(2)]
        packed = check_sequences([[], X[0], X[1][:0]])
        assert packed.feature_names.tolist() == ["a", "b"]
        assert packed.offsets.tolist() == [0, 0, 2, 2]
        np.testing.assert_array_equal(packed.values, [[1, 3], [2, 4]])
        other = frames.DataFrame({"a": [1.0], "c": [2]})
        with pytest.raises(ValueError, match=r"X\[2\] has other column names than X"):
            check_sequences([[], X[0], other])
        words = frames.DataFrame({"a": [1.0], "on": [True], "word": ["x"]})
        with pytest.raises(TypeError, match=r"X\[0\]\['word'\] has dtype"):
            check_sequences([words])
        with pytest.raises(TypeError, match=r"X: rows\['word'\] has dtype"):
            feature_rows(words, "X: rows")
        mixed = frames.DataFrame({"a": [1.5, 2], "on": [True, False]})
        assert check_sequences([mixed]).values.tolist() == [[1.5, 1], [2, 0]]
        gap = frames.DataFrame({"a": [1.5, 2], "on": [True, None]})
        with pytest.raises(ValueError, match=r"X\[1\] .*NaN.* position 1 of .*'on'"):
            check_sequences([mixed, gap])
        with pytest.raises(TypeError, match="X is a single DataFrame"):
            check_sequences(X[0])

    @pytest.mark.parametrize("backend", ["numpy_nullable", "pyarrow"])
    def test_nullable_columns(self, backend):
        frames = pytest.importorskip("pandas")
        pytest.importorskip("pyarrow" if backend == "pyarrow" else "pandas")
        plain = frames.DataFrame({"a": [1.5, 2], "b": [3, 4], "on": [True, False]})
        frame = plain.convert_dtypes(dtype_backend=backend)
        # of the same name
        both = frames.concat([frame, plain[["a"]]], axis=1)
        packed = check_sequences([both])
        assert packed.values.tolist() == [[1.5, 3, 1, 1.5], [2, 4, 0, 2]]
        assert packed.feature_names.tolist() == ["a", "b", "on", "a"]
        frame.loc[1, "b"] = None
        with pytest.raises(ValueError, match=r"X\[0\] .*NaN.* position 1 of .*'b'"):
            check_sequences([frame])
        graph = check_graph((plain, [(0, 1)]), "X[0]")
        assert graph.node_features.tolist() == plain.to_numpy(float).tolist()
        with pytest.raises(ValueError, match=r"NaN"):
            check_graph((frame, [(0, 1)]), "X[0]")

    def test_frame_without_columns(self):
        frames = pytest.importorskip("pandas")
        with pytest.raises(ValueError, match=r"X\[0\] has 0 features"):
            check_sequences([frames.DataFrame(index=[0, 1])])

    @pytest.mark.parametrize("index", [-1, 2, 10**8])
    def test_column_indices_out_of_range(self, index):
        """scipy takes them, and a kernel would follow them out of the weights."""
        bad = sparse.csr_array((1, 2))
        bad.data, bad.indices = np.ones(1), np.array([index], dtype=np.int32)
        bad.indptr = np.array([0, 1], dtype=np.int32)
        with pytest.raises(ValueError, match=rf"X\[1\] has the column index {index}"):
            check_sequences([sparse.csr_array(np.eye(2)), bad])
        with pytest.raises(ValueError, match=f"column index {index}"):
            PackedSequences(bad, [0, 1])

    def test_number_of_features(self):
        with pytest.raises(ValueError, match="2 features in each row, but 3"):
            check_sequences([np.ones((1, 2))], n_features=3)


class TestLabels:
    @pytest.mark.parametrize(
        ("labels", "dtype"),
        [
            (["b", "a"], "U"),
            ([2, 1], "i"),
            ([1.5, 0.5], "f"),
            ([True, False], "b"),
            ([("b",), ("a",)], "O"),
            ([1, "a", None.__class__], "O"),
            (["a\0", "a"], "O"),
            ([2**53 + 1, 0.5], "O"),
            pytest.param([frozenset("a"), frozenset("b")], "O", id="frozensets"),
        ],
        ids=str,
    )
    def test_classes(self, labels, dtype):
        encoder = LabelEncoder.from_labels(labels + labels)
        assert encoder.classes_.dtype.kind == dtype
        assert len(encoder.classes_) == len(labels)
        codes = encoder.encode(labels)
        assert [encoder.classes_[k] for k in codes] == labels

    def test_unknown_labels(self):
        encoder = LabelEncoder.from_labels("ab")
        assert encoder.encode(["b", "z"], default=-1).tolist() == [1, -1]

    def test_padding_of_other_frameworks(self):
        for y in ([[0, 2], [1, -100, -100]], [[0, None], [1, -100, None]]):
            with pytest.raises(
                ValueError, match=r"y\[1\] has the label -100 .*ion 1, "
            ):
                encode_choices(y, [2, 3])
        # scores, for example, are other labels
        for y in ([[-100, 1, -1]], [[-200, -100, 5]], [["-100", "0", "1"]]):
            assert len(encode_choices(y, [3])[0]) == 3

    @pytest.mark.parametrize("y", [np.array(3), {1, 2}, "ab", None, 3], ids=repr)
    def test_not_a_list(self, y):
        with pytest.raises(TypeError, match="y must be a list of label sequences"):
            check_labels(y, [1, 1])
        with pytest.raises((TypeError, ValueError), match=r"y\[0\] is"):
            check_labels([y], [2])

    def test_data_frames_and_missing_values_of_pandas(self):
        pd = pytest.importorskip("pandas")
        with pytest.raises(TypeError, match=r"y\[0\] is"):
            check_labels([pd.DataFrame({"a": [1], "b": [2]})], [2])
        with pytest.raises(ValueError, match=r"y\[0\] has a missing label"):
            check_labels([[1, pd.NA]], [2])
        assert check_labels([pd.Series(["a", "b"], index=[5, 6])], [2]) == ["a", "b"]

    @pytest.mark.slow
    def test_order_of_sets_is_that_of_their_elements(self):
        """Sets print in an order that depends on the seed of the hashes."""
        labels = [frozenset(words) for words in ("ba", "c", "ad", "ab")]
        labels.append((frozenset("zyx"), 1))
        found = LabelEncoder.from_labels(labels).classes_.tolist()
        assert found[:3] == [frozenset("ab"), frozenset("ad"), frozenset("c")]
        code = (
            "from sksstruct.utils.validation import LabelEncoder\n"
            "labels = [(frozenset([a, b]), 1) for a in 'abcde' for b in 'vwxyz']\n"
            "classes = LabelEncoder.from_labels(labels).classes_\n"
            "print([sorted(x[0]) for x in classes])"
        )
        # this process has another seed
        seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
        other = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        with redirect_stdout(StringIO()) as here:
            exec(code, {})
        assert here.getvalue() == other != ""

    @pytest.mark.parametrize(
        "kind", ["datetime64[ns]", "datetime64[D]", "timedelta64[ns]"]
    )
    def test_times_stay_times(self, kind):
        row = np.array([20, 10, 20]).astype(kind)
        flat = check_labels([row, list(row)], [3, 3])
        encoder = LabelEncoder.from_labels(flat)
        assert encoder.classes_.tolist() == [row[1], row[0]]
        assert all(isinstance(x, type(row[0])) for x in encoder.classes_.tolist())
        assert encoder.encode(flat).tolist() == [1, 0, 1, 1, 0, 1]

    def test_numpy_scalars_become_python_values(self):
        assert check_labels([[np.int64(3)]], [1]) == [3]
        assert type(check_labels([[np.str_("a")]], [1])[0]) is str


class TestPacked:
    def test_sequence_protocol(self):
        packed = PackedSequences.from_lengths(np.arange(8.0).reshape(4, 2), [1, 2, 1])
        assert len(packed) == 3
        np.testing.assert_array_equal(packed[-1], [[6, 7]])
        assert [x.shape[0] for x in packed] == [1, 2, 1]
        for key in (slice(1, None), slice(None, None, -1), slice(0, 0)):
            part = packed[key]
            assert isinstance(part, PackedSequences)
            expected = [packed[i].tolist() for i in range(*key.indices(3))]
            assert [x.tolist() for x in part] == expected
        with pytest.raises(IndexError):
            packed[3]

    def test_compact(self):
        rows = np.zeros((5, 10))
        rows[:, 0] = 1
        packed = PackedSequences(rows, [0, 5])
        assert packed.compact().is_sparse
        np.testing.assert_array_equal(packed.compact().values.toarray(), rows)
        full = PackedSequences(rows + 1, [0, 5])
        assert full.compact() is full

    def test_input_csr_is_not_changed(self):
        unsorted = sparse.csr_array(
            (np.ones(2), np.array([1, 0]), np.array([0, 2])), shape=(1, 2)
        )
        packed = PackedSequences(unsorted, [0, 1])
        assert unsorted.indices.tolist() == [1, 0]
        assert packed.values.indices.tolist() == [0, 1]

    @pytest.mark.parametrize(
        "offsets", [[1, 3], [0, 2], [0, 3, 2, 3], [[0, 3]]], ids=str
    )
    def test_bad_offsets(self, offsets):
        with pytest.raises(ValueError, match="offsets"):
            PackedSequences(np.ones((3, 2)), offsets)
