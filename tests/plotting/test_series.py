"""Displays of long series: runs, measurements, where errors are."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from sksstruct import ChainCRF
from sksstruct.datasets import make_segments
from sksstruct.plotting import (
    ConfusionByTimeDisplay,
    RunLengthsDisplay,
    SeriesDisplay,
)

plt = pytest.importorskip("matplotlib.pyplot")

TRUE = ["a", "a", "b", None, "b", {"b", "c"}, "a"]
FOUND = ["a", "b", "b", "b", "b", "c", "b"]


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_segments(6, random_state=0)


@pytest.fixture(scope="module")
def tagger(data):
    return ChainCRF(loss="log", random_state=0).fit(data.X[:4], data.y[:4])


def spans(bands):
    """Where bands begin and end."""
    corners = [path.vertices[:, 0] for path in bands.get_paths()]
    return [(float(x.min()), float(x.max())) for x in corners]


class TestSeries:
    def test_bands(self):
        display = SeriesDisplay.from_predictions(TRUE, FOUND)
        assert list(display.axes_) == ["labels"]
        assert spans(display.bands_["predicted"]) == [(0, 1), (1, 5), (5, 6), (6, 7)]
        # a label that is not known has no band, and of a set counts what was predicted
        bands = spans(display.bands_["true"])
        assert bands == [(0, 2), (2, 3), (4, 5), (5, 6), (6, 7)]
        assert spans(display.bands_["wrong"]) == [(1, 2), (6, 7)]
        predicted = display.bands_["predicted"].get_facecolors()
        true = display.bands_["true"].get_facecolors()
        np.testing.assert_array_equal(predicted[[0, 1, 2]], true[[0, 1, 3]])
        assert len(np.unique(predicted, axis=0)) == 3

    def test_of_an_estimator(self, data, tagger):
        x, y = data.X[5], data.y[5]
        display = SeriesDisplay.from_estimator(tagger, x, y)
        assert list(display.axes_) == ["labels", "measurements", "probabilities"]
        assert [len(line.get_xdata()) for line in display.lines_] == [len(x)] * 3
        np.testing.assert_array_equal(display.lines_[2].get_ydata(), x[:, 2])
        expected = tagger.predict_proba([x])[0]
        np.testing.assert_array_equal(display.probabilities, expected)
        assert display.predicted == tagger.predict([x])[0].tolist()
        # without true labels, and without probabilities
        hinge = ChainCRF(max_iter=1, tol=1e6).fit(data.X[:2], data.y[:2])
        display = SeriesDisplay.from_estimator(hinge, x)
        assert list(display.bands_) == ["predicted"]
        assert list(display.axes_) == ["labels", "measurements"]

    def test_a_range_of_positions(self, data, tagger):
        fig, ax = plt.subplots()
        display = SeriesDisplay.from_estimator(
            tagger, data.X[5], data.y[5], start=20, stop=50, ax=ax
        )
        assert display.ax_ is ax and display.figure_ is fig
        for part in display.axes_.values():
            assert part.get_xlim() == (20, 50)
        assert display.lines_[0].get_xdata().tolist() == list(range(20, 50))
        bands = spans(display.bands_["true"])
        assert bands[0][0] == 20 and bands[-1][1] == 50
        display.plot(start=45)
        assert display.axes_["labels"].get_xlim() == (45, len(data.X[5]))
        for start, stop in ((50, 20), (10**6, None)):
            with pytest.raises(ValueError, match=r"leave none of \d+ positions"):
                display.plot(start=start, stop=stop)

    def test_times(self):
        times = [0.0, 0.5, 1.5, 10.0, 10.5, 11.0, 11.5]
        display = SeriesDisplay.from_predictions(
            None, FOUND, times=times, start=0.4, stop=11.0
        )
        assert spans(display.bands_["predicted"]) == [(0.5, 11.0)]
        days = np.datetime64("2026-03-01") + np.arange(7)
        for start in ("2026-03-03", np.datetime64("2026-03-03T00")):
            display = SeriesDisplay.from_predictions(
                TRUE, FOUND, times=days, start=start
            )
            first, last = display.axes_["labels"].get_xlim()
            assert last - first == 5
            display.figure_.canvas.draw()
            ticks = display.axes_["labels"].get_xticklabels()
            assert any("2026-03" in tick.get_text() for tick in ticks)

    def test_data_frames(self):
        frames = pytest.importorskip("pandas")
        x = frames.DataFrame({"ax": np.arange(7.0), "ay": np.zeros(7)})
        x.loc[2, "ay"] = np.nan
        display = SeriesDisplay.from_predictions(TRUE, FOUND, x=x)
        assert [line.get_label() for line in display.lines_] == ["ax", "ay"]

    def test_many_labels(self):
        labels = list(range(30))
        display = SeriesDisplay.from_predictions(None, labels)
        shades = display.bands_["predicted"].get_facecolors()
        assert len(np.unique(shades, axis=0)) == 30

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"x": np.zeros((3, 2))}, "x has 3 positions, y_pred has 7"),
            ({"times": [0, 1]}, "times has 2 positions"),
            ({"times": [0, 1, 2, 3, 2, 3, 4]}, r"times\[4\] is less than times\[3\]"),
            ({"probabilities": np.ones((7, 2))}, "classes must name the columns"),
            (
                {"probabilities": np.ones((2, 1)), "classes": ["a"]},
                "probabilities has 2 positions",
            ),
        ],
    )
    def test_errors(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            SeriesDisplay.from_predictions(TRUE, FOUND, **parameters)
        with pytest.raises(TypeError, match="x is sparse"):
            SeriesDisplay.from_predictions(TRUE, FOUND, x=sparse.csr_array((7, 2)))
        with pytest.raises(ValueError, match="y_pred"):
            SeriesDisplay.from_predictions(TRUE, FOUND[:-1])


class TestRunLengths:
    def test_lengths(self):
        y_true, y_pred = [TRUE, ["a", "a"]], [FOUND, ["b", "b"]]
        display = RunLengthsDisplay.from_predictions(y_true, y_pred)
        # a run does not go on in the next series
        assert display.predicted.tolist() == [1, 4, 1, 1, 2]
        assert display.true.tolist() == [2, 1, 1, 1, 1, 2]
        heights = [bar.get_height() for bars in display.bars_ for bar in bars]
        assert sum(heights) == 11
        labels = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert labels == ["true", "predicted"]
        display = RunLengthsDisplay.from_predictions(y_true, y_pred, label="b", bins=4)
        assert display.predicted.tolist() == [4, 1, 2]
        assert display.true.tolist() == [1, 1]
        assert [len(bars) for bars in display.bars_] == [4, 4]
        assert display.ax_.get_xlabel() == "length of a run of b"
        with pytest.raises(ValueError, match="no run has the label 'x'"):
            RunLengthsDisplay.from_predictions(y_true, y_pred, label="x")

    def test_of_an_estimator(self, data, tagger):
        display = RunLengthsDisplay.from_estimator(tagger, data.X, data.y)
        assert display.true.sum() == display.predicted.sum() == sum(map(len, data.y))
        assert len(display.true) == sum(
            np.count_nonzero(np.diff(y)) + 1 for y in data.y
        )
        with pytest.raises(NotFittedError):
            RunLengthsDisplay.from_estimator(ChainCRF(), data.X, data.y)


class TestConfusionByTime:
    def test_shares(self):
        display = ConfusionByTimeDisplay.from_predictions([TRUE], [FOUND], bins=7)
        assert display.pairs == [("a", "b")]
        expected = np.zeros(7)
        expected[[1, 6]], expected[3] = 1.0, np.nan
        np.testing.assert_array_equal(display.shares[0], expected)
        assert display.edges.tolist() == list(range(8))
        (area,) = display.patches_
        assert area.get_label() == "a as b"
        assert area.get_data().values.tolist() == [0, 1, 0, 0, 0, 0, 1]

    def test_series_of_different_length(self):
        y_true, y_pred = [["a"] * 4, ["a"] * 8], [["a", "a", "b", "b"], ["a"] * 8]
        display = ConfusionByTimeDisplay.from_predictions(y_true, y_pred, bins=2)
        assert display.shares.tolist() == [[2 / 8, 0.0]]
        display = ConfusionByTimeDisplay.from_predictions(
            y_true, y_pred, bins=2, relative=True
        )
        assert display.shares.tolist() == [[0.0, 2 / 6]]
        assert display.ax_.get_xlabel() == "share of the series"

    def test_rare_pairs_are_together(self):
        y_true, y_pred = [["a", "a", "b", "c"]], [["b", "b", "a", "a"]]
        display = ConfusionByTimeDisplay.from_predictions(
            y_true, y_pred, bins=1, n_pairs=1
        )
        assert display.pairs == [("a", "b"), None]
        assert display.shares.tolist() == [[0.5], [0.5]]
        names = [area.get_label() for area in display.patches_]
        assert names == ["a as b", "others"]
        for name in ("bins", "n_pairs"):
            with pytest.raises(ValueError, match=f"{name} must be at least 1"):
                ConfusionByTimeDisplay.from_predictions(y_true, y_pred, **{name: 0})

    def test_of_an_estimator(self, data, tagger):
        display = ConfusionByTimeDisplay.from_estimator(tagger, data.X, data.y, bins=1)
        wrong = 1.0 - tagger.score(data.X, data.y)
        np.testing.assert_allclose(display.shares.sum(), wrong)
        nothing = ConfusionByTimeDisplay.from_predictions(data.y, data.y)
        assert nothing.pairs == [] and nothing.patches_ == []
