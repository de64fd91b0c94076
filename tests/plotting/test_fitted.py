"""Displays of fitted estimators: weights, transitions, interactions, labels, MAP."""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksstruct import (
    ChainCRF,
    FactorGraph,
    LinearSSVC,
    LPMAPPredictor,
    MultilabelPairwise,
    SSVMClassifier,
    make_tagger,
)
from sksstruct.plotting import (
    InteractionsDisplay,
    MAPDisplay,
    SequenceDisplay,
    TransitionsDisplay,
    WeightsDisplay,
)

plt = pytest.importorskip("matplotlib.pyplot")

WORDS = [["Ada", "ran"], ["Bob", "<b>"], ["it", "ran"]]
X = [[{"word": word} for word in sentence] for sentence in WORDS]
Y = [["PER", "O"], ["PER", "O"], ["O", "O"]]


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def tagger():
    return make_tagger(alpha=0.01, loss="log", random_state=0).fit(X, Y)


def texts(labels):
    return [label.get_text() for label in labels]


class TestWeights:
    def test_of_a_pipeline(self, tagger):
        display = WeightsDisplay.from_estimator(tagger, "PER", n=1)
        crf = tagger[-1]
        row = crf.coef_[list(crf.classes_).index("PER")]
        names = tagger[:-1].get_feature_names_out()
        assert [bar.get_width() for bar in display.bars_] == [row.min(), row.max()]
        expected = [names[row.argmin()], names[row.argmax()]]
        assert texts(display.ax_.get_yticklabels()) == expected
        assert display.ax_.get_title() == "PER"

    def test_weights_of_zero_are_left_out_and_none_is_twice(self):
        data = [np.eye(3)[[0, 1]]] * 2
        crf = ChainCRF(random_state=0).fit(data, [["a", "b"]] * 2)
        display = WeightsDisplay.from_estimator(crf, "a", n=5)
        assert texts(display.ax_.get_yticklabels()) == ["feature 1", "feature 0"]

    def test_two_classes_with_one_row(self):
        pytest.importorskip("pandas")
        data, y = load_iris(return_X_y=True, as_frame=True)
        data, y = data[y < 2], y[y < 2]
        model = make_pipeline(StandardScaler(), LinearSSVC()).fit(data, y)
        first = WeightsDisplay.from_estimator(model, 0)
        second = WeightsDisplay.from_estimator(model, 1)
        np.testing.assert_array_equal(first.weights, -second.weights[::-1])
        assert set(first.names) == set(data.columns)

    def test_names(self):
        data, y = load_iris(return_X_y=True)
        model = SSVMClassifier(random_state=0).fit(data, y)
        display = WeightsDisplay.from_estimator(model, 2, names=list("abcd"), n=2)
        assert sorted(display.names) == list("abcd")
        with pytest.raises(ValueError, match=r"a name for each of the 4 .*, got 3"):
            WeightsDisplay.from_estimator(model, 2, names=list("abc"))
        with pytest.raises(
            ValueError, match=r"label=7 is none of the classes \[0, 1, 2"
        ):
            WeightsDisplay.from_estimator(model, 7)
        with pytest.raises(ValueError, match="n=0 must be at least 1"):
            WeightsDisplay.from_estimator(model, 2, n=0)

    def test_not_fitted(self):
        with pytest.raises(NotFittedError):
            WeightsDisplay.from_estimator(ChainCRF(), "a")


def test_transitions(tagger):
    display = TransitionsDisplay.from_estimator(tagger, colorbar=False)
    np.testing.assert_array_equal(display.image_.get_array(), tagger[-1].transitions_)
    assert texts(display.ax_.get_xticklabels()) == ["O", "PER"]
    # forbidden transitions have no color, and do not stretch the others'
    display = TransitionsDisplay([[0.0, -np.inf], [2.0, -1.0]], ["a", "b"]).plot()
    assert display.image_.get_array().mask.tolist() == [[False, True], [False, False]]
    assert display.image_.get_clim() == (-2.0, 2.0)


def test_interactions_of_a_pipeline():
    rng = np.random.RandomState(0)
    data, y = rng.normal(size=(40, 3)), rng.randint(2, size=(40, 3))
    y[:, 1] = y[:, 0]
    model = make_pipeline(
        StandardScaler(), MultilabelPairwise(alpha=1.0, random_state=0)
    )
    display = InteractionsDisplay.from_estimator(model.fit(data, y))
    assert display.interactions is model[-1].interactions_
    assert display.names is None


def test_interactions_have_the_names_of_labels():
    rng = np.random.RandomState(0)
    data, y = rng.normal(size=(40, 3)), rng.randint(2, size=(40, 2))
    names = np.array(["b", "a"])
    sets = [set(names[row == 1].tolist()) for row in y]
    model = MultilabelPairwise(alpha=1.0, random_state=0).fit(data, sets)
    display = InteractionsDisplay.from_estimator(model)
    assert texts(display.ax_.get_xticklabels()) == ["a", "b"]
    display = InteractionsDisplay.from_estimator(model, names=["A", "B"])
    assert texts(display.ax_.get_yticklabels()) == ["A", "B"]
    # the values of a single label are no names of labels
    model.fit(data, names[y[:, 0]])
    assert InteractionsDisplay.from_estimator(model).names is None


class TestSequence:
    def test_table(self, tagger):
        display = SequenceDisplay.from_estimator(
            tagger, X[1], ["O", "O"], tokens=WORDS[1]
        )
        assert display.predicted == ["PER", "O"]
        html = display._repr_html_()
        assert "&lt;b&gt;" in html and "<b>" not in html
        # one of the two is wrong
        assert html.count("#b00020") == 1
        assert f"{tagger.predict_proba([X[1]])[0][0].max():.2f}" in html

    def test_picture(self, tagger):
        display = SequenceDisplay.from_estimator(tagger, X[1], ["O", "O"]).plot()
        np.testing.assert_array_equal(
            display.image_.get_array(), tagger.predict_proba([X[1]])[0].T
        )
        truth, predicted = display.ax_.collections
        assert truth.get_offsets().tolist() == [[0, 0], [1, 0]]
        assert predicted.get_offsets().tolist() == [[0, 1], [1, 0]]
        wrong, right = predicted.get_facecolors()
        assert wrong[0] > wrong[2] and right[2] > right[0]

    def test_truth_that_is_not_known(self, tagger):
        for truth in ([None, {"O", "LOC"}], [None, frozenset(["O", "LOC"])]):
            display = SequenceDisplay.from_estimator(tagger, X[1], truth).plot()
            assert display.predicted == ["PER", "O"]
            html = display._repr_html_()
            assert "#b00020" not in html and "LOC or O" in html and "None" not in html
            places = sorted(display.ax_.collections[0].get_offsets().tolist())
            rows = [display._classes().index(label) for label in ("LOC", "O")]
            assert places == sorted([1, row] for row in rows)
        display = SequenceDisplay.from_estimator(tagger, X[1], [{"O", "LOC"}, None])
        assert display._repr_html_().count("#b00020") == 1

    def test_without_probabilities(self):
        text = make_tagger(random_state=0).fit(X, Y)
        display = SequenceDisplay.from_estimator(text, X[0])
        assert display.probabilities is None and display.tokens == ["0", "1"]
        html = display._repr_html_()
        assert "probability" not in html and "true" not in html
        display.plot()
        assert not display.image_.get_array().any()

    def test_lengths(self, tagger):
        with pytest.raises(ValueError, match="y has 1 entries, x has 2 positions"):
            SequenceDisplay.from_estimator(tagger, X[0], ["O"])
        with pytest.raises(ValueError, match="tokens has 3 entries"):
            SequenceDisplay.from_estimator(tagger, X[0], tokens=["a", "b", "c"])


def test_map():
    rng = np.random.RandomState(0)
    graph = FactorGraph(
        rng.normal(size=(9, 3)), [(k, k + 1) for k in range(8)] + [(0, 8), (2, 6)],
        rng.normal(size=(10, 3, 3)),
    )  # fmt: skip
    predictor = LPMAPPredictor("trws", random_state=0)
    predictor.predict([graph])
    (result,) = predictor.results_
    display = MAPDisplay.from_result(result, x="iteration", name="TRW-S")
    assert texts(display.ax_.get_legend().get_texts()) == [
        "TRW-S, score",
        "TRW-S, bound",
    ]
    np.testing.assert_array_equal(display.bound_.get_ydata(), result.trace["bound"])
    np.testing.assert_array_equal(display.score_.get_xdata(), result.trace["iteration"])
    assert display.score_.get_color() == display.bound_.get_color()
    with pytest.raises(
        ValueError, match="x must be 'seconds' or 'iteration', got 'calls'"
    ):
        MAPDisplay.from_result(result, x="calls")
    assert display.parts_ == {}


def test_parts_of_map():
    trace = {
        "iteration": np.array([1, 2, 2, 3]),
        "seconds": np.array([0.5, 1.0, 3.0, 4.0]),
        "score": np.array([1.0, 1.0, 2.0, 3.0]),
        "bound": np.array([9.0, 5.0, 5.0, 3.0]),
        "part": np.array(["TRW-S", "TRW-S", "local search", "TRW-S"]),
    }
    display = MAPDisplay(trace).plot(parts=True)
    assert list(display.parts_) == ["TRW-S", "local search"]
    ends = {
        part: [
            (path.vertices[:, 0].min(), path.vertices[:, 0].max())
            for path in bars.get_paths()
        ]
        for part, bars in display.parts_.items()
    }
    assert ends == {
        "TRW-S": [(0.0, 0.5), (0.5, 1.0), (3.0, 4.0)],
        "local search": [(1.0, 3.0)],
    }
    assert texts(display.ax_.texts) == ["TRW-S", "local search"]
    with pytest.raises(ValueError, match="parts=True needs x='seconds'"):
        MAPDisplay(trace).plot(x="iteration", parts=True)


def test_certificates_are_in_notebooks(tagger):
    # scikit-learn shows what fit has found
    pytest.importorskip("sklearn", "1.9")
    html = tagger[-1]._repr_html_()
    assert "dual_gap_" in html and "objective_" in html


def test_a_true_label_that_training_has_not_seen(tagger):
    display = SequenceDisplay.from_estimator(tagger, X[0], ["LOC", "O"]).plot()
    assert texts(display.ax_.get_yticklabels()) == ["O", "PER", "LOC"]
    assert display.image_.get_array().shape == (3, 2)
