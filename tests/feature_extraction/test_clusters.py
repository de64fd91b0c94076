import gzip
import io
import pickle
from fractions import Fraction

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline

from sksstruct import make_tagger
from sksstruct.feature_extraction import (
    ClusterFeatures,
    ColumnFeatures,
    SequenceVectorizer,
    WordClusters,
)
from sksstruct.feature_extraction._word_clusters import _information, _neighbors

PATHS = {"paris": "01101", "rome": "01100", "in": "10", "Will": "111"}
CITIES, VERBS, NAMES = ["rome", "paris", "oslo"], ["saw", "left"], ["ann", "bob"]


def make_text(n=200, seed=0):
    """Sentences "name verb city", and labels."""
    rng = np.random.RandomState(seed)
    X = [[rng.choice(part) for part in (NAMES, VERBS, CITIES)] for _ in range(n)]
    return [[str(word) for word in row] for row in X], [["B-P", "O", "B-C"]] * n


def fitted(paths=PATHS, **parameters):
    return ClusterFeatures(paths, **{"prefixes": [2, 4], **parameters}).fit([])


class TestClusterFeatures:
    @pytest.mark.parametrize("window", [(), (-1, 1), [2, -2, 2], np.array([-9, 1])])
    def test_every_form_of_token(self, window):
        words = ["In", "Paris", "x", "Rome", "in"]
        parts = {"paris": ["01", "0110", "01101"], "rome": ["01", "0110", "01100"]}
        parts["in"] = ["10"]
        expected = []
        for t in range(5):
            near = {f"cluster[{d}]": t + d for d in sorted({0, *window})}
            row = {n: s for n, s in near.items() if 0 <= s < 5 and words[s] != "x"}
            expected.append({n: parts[words[s].lower()] for n, s in row.items()})
        clusters = fitted(window=window)
        X = [words, [], [{"w": word, "n": 2.0} for word in words]]
        X += [[["a=w=", f"w={word}", "w=z"] for word in words]]
        before = pickle.dumps(X)
        alone, empty, dicts, lists = clusters.transform(X)
        assert pickle.dumps(X) == before and empty == []
        for t, row in enumerate(expected):
            assert alone[t] == {"w": words[t], **row}
            assert dicts[t] == {"w": words[t], "n": 2.0, **row}
            joined = [f"{name}={v}" for name, value in row.items() for v in value]
            assert lists[t] == [*X[3][t], *joined]
        names = clusters.get_feature_names_out().tolist()
        assert set(names) == {f"cluster[{d}]" for d in {0, *window}}

    def test_a_word_itself_goes_first(self):
        """Before its normal form; and only it is known without such a form."""
        paths = {"Will": "1", "will": "0"}
        for normalize, last in (("lower", "0"), (str.lower, "0"), (None, None)):
            clusters = fitted(paths, normalize=normalize, window=())
            rows = clusters.transform([["Will", "will", "WILL"]])[0]
            values = [row.get("cluster[0]", (None,)) for row in rows]
            assert [value for (value,) in values] == ["1", "0", last]

    def test_clusters_without_a_hierarchy(self):
        rows = fitted({"a": "17"}, prefixes=(), window=()).transform([["a", "b"]])[0]
        assert rows == [{"w": "a", "cluster[0]": ["17"]}, {"w": "b"}]

    @pytest.mark.parametrize("name", ["paths", "paths.gz"])
    def test_files(self, tmp_path, name):
        path = tmp_path / name
        text = "0110\tparis\t7\r\n10\tin \t12\n0110\té\t1\n".encode()
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        for given in (path, str(path)):
            assert fitted(given).paths_ == {"paris": "0110", "in ": "10", "é": "0110"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("01\ta\t1\n01\tb\n", "line 2: expected a path of bits, a word"),
            ("01 a 1\n", "line 1: expected .* got '01 a 1"),
            ("a\t01\t1\n", "line 1: expected"),
            ("01\ta\tx\n", "line 1: expected"),
            ("\ta\t1\n", "line 1: expected"),
            ("01\ta\t1\n\n", "line 2: expected"),
            ("01\ta\t1\n10\ta\t1\n", "line 2: an earlier line has the word 'a'"),
            ("", "empty"),
            ("01\t\udcff\t1\n", "not UTF-8"),
        ],
    )
    def test_broken_files(self, tmp_path, text, message):
        path = tmp_path / "paths"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        with pytest.raises(ValueError, match=message):
            fitted(path)

    def test_cut_file(self, tmp_path):
        path = tmp_path / "paths.gz"
        path.write_bytes(gzip.compress(b"01\ta\t1\n")[:-9])
        with pytest.raises(
            ValueError, match=r"paths\.gz, line 1: it is truncated or damaged"
        ):
            fitted(path)
        with pytest.raises(FileNotFoundError):
            fitted(tmp_path / "none")

    @pytest.mark.parametrize(
        ("parameters", "error", "message"),
        [
            ({"paths": ["01"]}, ValueError, "'paths' parameter"),
            ({"paths": {"a": ""}}, ValueError, "not empty, got 'a'"),
            ({"paths": {"a": 1}}, ValueError, "strings"),
            ({"prefixes": [0]}, ValueError, "prefixes must be positive"),
            ({"prefixes": 4}, ValueError, "'prefixes' parameter"),
            ({"window": [0, 1]}, ValueError, "window must be integers other than 0"),
            ({"window": [1.5]}, ValueError, "window must be integers"),
            ({"normalize": "upper"}, ValueError, "'normalize' parameter"),
            ({"name": 3}, ValueError, "'name' parameter"),
        ],
    )
    def test_bad_parameters(self, parameters, error, message):
        with pytest.raises(error, match=message):
            fitted(**parameters)

    @pytest.mark.parametrize(
        ("X", "error", "message"),
        [
            ("ab", TypeError, "X must be a list of sentences"),
            (["ab"], TypeError, r"X\[0\] is a single str"),
            ([[], [{"w": "a"}, {"v": "a"}]], ValueError, r"X\[1\]\[1\] .*name 'w'"),
            ([[["v=a"]]], ValueError, r"X\[0\]\[0\] has no word: .* 'w='.* word="),
            ([[{"w": 1}]], TypeError, r"X\[0\]\[0\]\['w'\] must be a string, got 1"),
            ([[3]], TypeError, r"X\[0\]\[0\] must be a word"),
            ([[{"w": "in", "cluster[0]": "x"}]], ValueError, "another name"),
        ],
    )
    def test_bad_tokens(self, X, error, message):
        with pytest.raises(error, match=message):
            fitted().transform(X)

    def test_not_fitted(self):
        with pytest.raises(NotFittedError):
            ClusterFeatures(PATHS).transform([["a"]])

    def test_contract(self):
        clusters = ClusterFeatures(PATHS, prefixes=(2,))
        twin = clone(clusters)
        assert twin.get_params() == clusters.get_params()
        assert "paths_" not in vars(twin) and clusters.fit([]) is clusters
        X = [["in", "Rome"]]
        expected = clusters.transform(X)
        file = io.BytesIO()
        joblib.dump(clusters, file)
        file.seek(0)
        for copy in (pickle.loads(pickle.dumps(clusters)), joblib.load(file)):
            assert copy.transform(X) == expected and copy.paths_ == clusters.paths_
        # writing leaves the object as it was
        assert clusters.transform(X) == expected
        assert pickle.loads(pickle.dumps(twin)).get_params() == clusters.get_params()

    def test_skops(self):
        io = pytest.importorskip("skops.io")
        written = io.dumps(fitted())
        trusted = io.get_untrusted_types(data=written)
        X = [["in", "Rome"]]
        read = io.loads(written, trusted=trusted)
        assert read.transform(X) == fitted().transform(X)

    def test_damaged_state(self):
        clusters = fitted()
        state = {**clusters.__getstate__(), "_numbers": np.array([0, 1, 2, 9])}
        with pytest.raises(ValueError, match="a path for each of"):
            fitted().__setstate__(state)
        del state["_paths"]
        with pytest.raises(ValueError, match="_paths"):
            fitted().__setstate__(state)

    def test_taggers_unions_and_grids(self):
        """A word that training does not have is labeled by its cluster."""
        X, y = make_text(20)
        paths = dict.fromkeys(NAMES, "00") | dict.fromkeys(VERBS, "01")
        paths |= dict.fromkeys([*CITIES, "lima"], "10")
        new = [["lima", "saw", "ann"]]
        steps = make_pipeline(ClusterFeatures(paths, window=()), SequenceVectorizer())
        tagger = make_tagger(steps, random_state=0).fit(X, y)
        assert tagger.predict(new)[0][0] == "B-C"
        usual = make_pipeline(
            ColumnFeatures(), ClusterFeatures(paths, word="w[0]"), SequenceVectorizer()
        )
        names = usual.fit(X)[-1].get_feature_names_out().tolist()
        assert {"w[0]=ann", "cluster[0]=00", "cluster[1]=01"} <= set(names)
        union = FeatureUnion([("usual", clone(usual)), ("clusters", clone(steps))])
        tagger = make_tagger(union, random_state=0).fit(X, y)
        assert tagger.score(X, y) == 1.0
        grid = GridSearchCV(
            make_tagger(steps, random_state=0),
            {"pipeline__clusterfeatures__window": [(), [-1, 1]]},
            cv=2,
        )
        assert grid.fit(X, y).best_score_ == 1.0


class TestWordClusters:
    @pytest.mark.parametrize("seed", [0, 1])
    def test_finds_classes(self, seed):
        X, _ = make_text()
        clusters = WordClusters(3, min_count=1, random_state=seed).fit(X)
        paths = clusters.paths_
        assert len(set(paths.values())) == 3
        for words in (NAMES, VERBS, CITIES):
            assert len({paths[word] for word in words}) == 1
        again = WordClusters(3, min_count=1, random_state=seed).fit(X)
        assert again.paths_ == paths
        new = [["Bob", "saw", "what"]]
        given = ClusterFeatures(paths, name="word_cluster").fit(X)
        assert clusters.transform(new) == given.transform(new)
        copy = pickle.loads(pickle.dumps(clusters))
        assert copy.transform(new) == clusters.transform(new)

    def test_paths_are_those_of_a_binary_tree(self):
        rng = np.random.RandomState(0)
        X = [[f"w{k}" for k in rng.randint(60, size=8)] for _ in range(100)]
        paths = set(WordClusters(20, random_state=0).fit(X).paths_.values())
        assert len(paths) == 20
        # Kraft's sum is 1 for the leaves of a tree without gaps
        assert sum(Fraction(1, 2 ** len(path)) for path in paths) == 1
        ordered = sorted(paths)
        pairs = zip(ordered, ordered[1:], strict=False)
        assert not any(b.startswith(a) for a, b in pairs)

    def test_counts_and_information(self):
        """Against sums over all positions."""
        words, offsets = list("abacab" + "bca"), [0, 6, 6, 9]
        known = ["a", "b"]
        counts = np.zeros((2, 8))
        for a, b in zip(offsets, offsets[1:], strict=False):
            padded = ["end", *words[a:b], "end"]
            for t in range(1, len(padded) - 1):
                for side, other in enumerate((padded[t - 1], padded[t + 1])):
                    k = {"a": 0, "b": 1, "c": 2, "end": 3}[other]
                    if padded[t] in known:
                        counts[known.index(padded[t]), 4 * side + k] += 1
        found = _neighbors(words, offsets, known)
        np.testing.assert_array_equal(found.toarray(), counts)
        joint = counts / counts.sum()
        expected = joint.sum(1, keepdims=True) * joint.sum(0)
        with np.errstate(divide="ignore", invalid="ignore"):
            information = np.where(joint > 0, np.log(joint / expected), 0)
        np.testing.assert_allclose(
            _information(found).toarray(), np.maximum(information, 0), atol=1e-12
        )

    def test_rare_words_and_normal_forms(self):
        X = [["A", "x"], ["a", "x"], ["b", "x"]]
        paths = WordClusters(2, random_state=0).fit(X).paths_
        assert set(paths) == {"a", "x"}
        with pytest.raises(
            ValueError,
            match="must be at most 1, the number of words that occur min_count=2",
        ):
            WordClusters(2, normalize=None).fit(X)
        with pytest.raises(ValueError, match="n_clusters"):
            WordClusters(1).fit(X)

    def test_in_a_tagger(self):
        X, y = make_text(30)
        learned = WordClusters(3, min_count=1, random_state=0, prefixes=[1])
        tagger = make_tagger(learned, SequenceVectorizer(), random_state=0)
        assert tagger.fit(X, y).score(X, y) == 1.0
        assert tagger.steps[0][0] == "wordclusters"
