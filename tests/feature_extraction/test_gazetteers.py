import gzip
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from sksstruct import SegmentCRF, make_tagger
from sksstruct.feature_extraction import GazetteerFeatures, SequenceVectorizer


def draw(seed, n_sentences=30, letters="abc"):
    """Sentences, and lists of phrases, of few words: phrases overlap and nest."""
    rng = np.random.RandomState(seed)

    def words(most):
        return [str(w) for w in rng.choice(list(letters + "x"), rng.randint(0, most))]

    lists = {name: [words(5) for _ in range(9)] for name in ("p", "q")}
    lists = {
        name: [row for row in rows if row] or ["a"] for name, rows in lists.items()
    }
    return [words(9) for _ in range(n_sentences)], lists


def all_places(words, phrases):
    """Starts and stops of phrases in a sentence, by comparing everything."""
    n = len(words)
    spans = [(a, b) for a in range(n) for b in range(a + 1, n + 1)]
    known = {tuple(phrase) for phrase in phrases}
    return [(a, b) for a, b in spans if tuple(words[a:b]) in known]


def expected_values(words, lists):
    """Attributes of the tokens of a sentence, list by list."""
    values = [set() for _ in words]
    for name, phrases in lists.items():
        places, t = all_places(words, phrases), 0
        while t < len(words):
            stop = max((b for a, b in places if a == t), default=t)
            if stop - t == 1:
                values[t].add(f"S-{name}")
            for s in range(t, stop) if stop - t > 1 else ():
                letter = "B" if s == t else "E" if s == stop - 1 else "I"
                values[s].add(f"{letter}-{name}")
            t = max(stop, t + 1)
    return values


def values_of(rows):
    return [set(row.get("gazetteer[0]", ())) for row in rows]


class TestSearch:
    @pytest.mark.parametrize("seed", range(6))
    def test_attributes_and_spans(self, seed):
        X, lists = draw(seed)
        gazetteer = GazetteerFeatures(lists)
        found = gazetteer.fit_transform(X)
        assert gazetteer.list_names_ == ["p", "q"]
        assert gazetteer.n_phrases_ == sum(
            len(set(map(tuple, rows))) for rows in lists.values()
        )
        n_found = 0
        for words, rows, (spans, features) in zip(
            X, found, gazetteer.spans(X), strict=True
        ):
            assert values_of(rows) == expected_values(words, lists)
            assert [row["w"] for row in rows] == words
            places = [set(all_places(words, rows)) for rows in lists.values()]
            assert list(map(tuple, spans.tolist())) == sorted(places[0] | places[1])
            for span, row in zip(spans.tolist(), features, strict=True):
                assert row.tolist() == [tuple(span) in each for each in places]
            n_found += len(spans)
        assert n_found > 30
        copy = pickle.loads(pickle.dumps(gazetteer))
        assert copy.transform(X) == gazetteer.transform(X) == found

    def test_sentences_are_apart(self):
        gazetteer = GazetteerFeatures({"p": ["a b"]}, window=[1]).fit([])
        found = gazetteer.transform([["a"], [], ["b"], ["a", "b"]])
        assert [values_of(rows) for rows in found] == [
            [set()],
            [],
            [set()],
            [{"B-p"}, {"E-p"}],
        ]
        assert found[3][0]["gazetteer[1]"] == ["E-p"]
        assert gazetteer.transform([]) == [] == gazetteer.spans([])

    def test_case_and_splits(self):
        X = [["us", "US", "U-S"]]
        for parameters, expected in (
            ({}, [True, True, False]),
            ({"normalize": None}, [False, True, False]),
            ({"normalize": lambda word: word.replace("-", "")}, [False, True, True]),
        ):
            rows = GazetteerFeatures({"p": ["US"]}, **parameters).fit_transform(X)[0]
            assert [bool(value) for value in values_of(rows)] == expected
        by_dash = GazetteerFeatures({"p": ["u-s"]}, split=lambda text: text.split("-"))
        assert values_of(by_dash.fit_transform([["U", "S"]])[0]) == [{"B-p"}, {"E-p"}]

    @pytest.mark.parametrize("name", ["cities", "cities.gz"])
    def test_files(self, tmp_path, name):
        path, text = tmp_path / name, b"\xef\xbb\xbfNew York\r\nOslo"
        path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
        for given in (path, str(path), ["New York", ("Oslo",)], {"New York", "Oslo"}):
            gazetteer = GazetteerFeatures({"city": given}).fit([])
            rows = gazetteer.transform([["oslo", "new", "york"]])[0]
            assert values_of(rows) == [{"S-city"}, {"B-city"}, {"E-city"}]
        path = tmp_path / "gap"
        path.write_text("Oslo\n\nRome\n")
        with pytest.raises(ValueError, match="gap, line 2 has no words"):
            GazetteerFeatures({"city": path}).fit([])

    @pytest.mark.parametrize(
        ("lists", "error", "message"),
        [
            ({"p": 3}, TypeError, r"lists\['p'\] must be a file or a list"),
            ({"p": ["a", " "]}, ValueError, r"lists\['p'\]\[1\] has no words"),
            ({"p": ["a", 3]}, TypeError, r"lists\['p'\]\[1\] must be a phrase"),
            ({"p": [["a", 3]]}, TypeError, r"lists\['p'\]\[0\] must be a phrase"),
            ({"p": []}, ValueError, "no phrase in lists"),
            ({}, ValueError, "no phrase in lists"),
            (["a"], ValueError, "'lists' parameter"),
            ({1: ["a"]}, TypeError, "names of lists must be strings, got 1"),
        ],
    )
    def test_bad_lists(self, lists, error, message):
        with pytest.raises(error, match=message):
            GazetteerFeatures(lists).fit([])

    def test_damaged_state(self):
        gazetteer = GazetteerFeatures({"p": ["a b", "c"]}).fit([])
        for name, bad in (
            ("_lists", np.array([0, 7], np.int32)),
            ("_phrase_offsets", np.array([0, 0, 3])),
        ):
            state = {**gazetteer.__getstate__(), name: bad}
            with pytest.raises(ValueError, match="must have phrases with words"):
                GazetteerFeatures().__setstate__(state)
        with pytest.raises(ValueError, match="_counts"):
            state.pop("_counts")
            GazetteerFeatures().__setstate__(state)

    def test_contract(self):
        gazetteer = GazetteerFeatures({"p": ["a"]})
        twin = clone(gazetteer)
        assert twin.get_params() == gazetteer.get_params()
        for call in (twin.transform, twin.spans):
            with pytest.raises(NotFittedError):
                call([["a"]])


def labeled(seed):
    """Sentences with entities of two kinds, some of them in one sentence only."""
    X, lists = draw(seed, n_sentences=12)
    X = [[*words, "a", "b", "x"] for words in X] + [["u", "v"]]
    lists["p"].append(["u", "v"])
    y = []
    for words in X:
        labels = ["O"] * len(words)
        for name, phrases in lists.items():
            for a, b in all_places(words, phrases):
                if set(labels[a:b]) == {"O"}:
                    labels[a:b] = [f"B-{name}"] + [f"I-{name}"] * (b - a - 1)
        y.append(labels)
    return X, y


class TestTrainingEntities:
    @pytest.mark.parametrize("seed", range(4))
    def test_leaves_the_own_sentence_out(self, seed):
        """A training sentence gets what lists of all the others would give it."""
        X, y = labeled(seed)
        learned = GazetteerFeatures()
        found, spans = learned.fit_transform(X, y), learned.spans(X, y)
        assert learned.list_names_ == ["p", "q"]
        for i in range(len(X)):
            others = [k for k in range(len(X)) if k != i]
            other = clone(learned).fit([X[k] for k in others], [y[k] for k in others])
            assert other.list_names_ == ["p", "q"]
            assert found[i] == other.transform([X[i]])[0]
            for part, expected in zip(spans[i], other.spans([X[i]])[0], strict=True):
                np.testing.assert_array_equal(part, expected)
        assert values_of(found[-1]) == [set(), set()]
        assert values_of(learned.transform(X)[-1]) == [{"B-p"}, {"E-p"}]

    def test_phrases_of_one_sentence_are_left_out_there_alone(self):
        """However often it has them, and also if they are no entities elsewhere."""
        X = [["u", "v", "x", "u", "v"], ["u", "v"], ["w"], ["w"]]
        y = [["B-p", "I-p", "O", "B-p", "I-p"], ["O", "O"], ["B-p"], ["B-p"]]
        found = list(map(values_of, GazetteerFeatures().fit_transform(X, y)))
        assert found[0] == [set()] * 5
        assert found[1:] == [[{"B-p"}, {"E-p"}], [{"S-p"}], [{"S-p"}]]

    def test_labels_are_ignored_with_lists(self):
        X, y = [["a", "b"], ["a"]], [["B-p", "O"], ["O"]]
        gazetteer = GazetteerFeatures({"q": ["a", "a b"]})
        assert gazetteer.fit_transform(X, y) == gazetteer.transform(X)
        assert [len(spans) for spans, _ in gazetteer.spans(X, y)] == [2, 1]

    def test_errors(self):
        learned = GazetteerFeatures()
        with pytest.raises(ValueError, match="y must be given if lists=None"):
            learned.fit([["a"]])
        with pytest.raises(ValueError, match="every label in y must be known"):
            learned.fit([["a", "b"]], [["B-p", None]])
        with pytest.raises(ValueError, match="y has the label 'noun'"):
            learned.fit([["a"]], [["noun"]])
        with pytest.raises(ValueError, match="no phrase"):
            learned.fit([["a"]], [["O"]])
        learned.fit([["a"]], [["B-p"]])
        with pytest.raises(ValueError, match=r"seen in fit, \['p'\], got \['q'\]"):
            learned.spans([["a"]], [["B-q"]])

    def test_taggers_grids_and_segments(self):
        X, y = labeled(0)
        tagger = make_tagger(GazetteerFeatures(), SequenceVectorizer(), random_state=0)
        grid = GridSearchCV(
            tagger, {"gazetteerfeatures__normalize": ["lower", None]}, cv=2
        ).fit(X, y)
        assert grid.best_score_ > 0.5
        assert grid.best_estimator_[0].list_names_ == ["p", "q"]
        # the candidate spans are what SegmentCRF takes
        gazetteer = GazetteerFeatures({"p": ["b a"]}).fit(X)
        words = [["c", "b", "a"], ["a", "b"], ["a", "b", "a", "c"]]
        tags = [["O", "B-p", "I-p"], ["O", "O"], ["O", "B-p", "I-p", "O"]]
        rows = SequenceVectorizer().fit_transform([[["one"] for _ in s] for s in words])
        inputs = [
            (x, *found) for x, found in zip(rows, gazetteer.spans(words), strict=True)
        ]
        segments = SegmentCRF(alpha=0.01, random_state=0).fit(inputs, tags)
        assert [list(row) for row in segments.predict(inputs)] == tags
