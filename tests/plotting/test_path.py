import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

from sksstruct import SSVMClassifier, SSVMPathCV, ssvm_path
from sksstruct.plotting import PathDisplay

plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(autouse=True)
def close():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def search():
    X, y = load_iris(return_X_y=True)
    path = SSVMPathCV(
        SSVMClassifier(random_state=0), method="exact", alpha_min=0.01, cv=3
    )
    return path.fit(X, y)


def test_score(search):
    display = PathDisplay.from_estimator(search, name="iris")
    (line,) = display.lines_
    x, y = line.get_data()
    assert np.isfinite(x).all() and (np.diff(x) <= 0).all()
    mean = search.scores_.mean(axis=1)
    np.testing.assert_array_equal(y, np.repeat(mean, 2))
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == "held-out score"
    assert display.figure_ is display.ax_.figure
    # the chosen alpha lies on the curve
    best = display.ax_.lines[-1]
    assert best.get_xdata() == [search.alpha_]
    assert x[-1] < search.alpha_ < x[0]
    assert best.get_ydata() == pytest.approx(np.interp(search.alpha_, x[::-1], y[::-1]))
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["iris", "+- one sd", f"alpha = {search.alpha_:.3g}"]


def test_grid():
    X, y = load_iris(return_X_y=True)
    classifier, alphas = SSVMClassifier(random_state=0), [0.1, 0.01]
    search = SSVMPathCV(classifier, alphas=alphas, cv=3).fit(X, y)
    display = PathDisplay.from_estimator(search)
    x, mean = display.lines_[0].get_data()
    assert (
        x.tolist() == alphas and mean.tolist() == search.scores_.mean(axis=1).tolist()
    )
    best = display.ax_.lines[-1]
    assert best.get_ydata() == [search.best_score_]
    other = GridSearchCV(classifier, {"alpha": alphas}, cv=3).fit(X, y)
    with pytest.raises(TypeError, match="must be an SSVMPathCV, got GridSearchCV"):
        PathDisplay.from_estimator(other)


@pytest.mark.parametrize("best, score", [(300.0, 0.25), (2.0, 0.75), (0.001, 1.0)])
def test_chosen_alpha_beyond_the_ends(best, score):
    scores = np.array([[0.25], [0.75], [1.0]])
    edges = np.array([np.inf, 4.0, 1.0, 0.0])
    display = PathDisplay([], scores=(edges, scores), best=best).plot()
    x, _ = display.lines_[0].get_data()
    assert x[-1] < best < x[0]
    assert display.ax_.lines[-1].get_ydata() == [score]


@pytest.mark.parametrize("y", ["gap", "objective", "oracle_calls", "n_iter", "seconds"])
def test_columns(search, y):
    display = PathDisplay.from_estimator(search, y=y)
    assert len(display.lines_) == 3
    path = search.paths_[0]
    column = {"gap": "gaps", "objective": "objectives"}.get(y, y)
    np.testing.assert_array_equal(display.lines_[0].get_xdata(), path.alphas)
    values = getattr(path, column)
    shown = display.lines_[0].get_ydata()
    np.testing.assert_array_equal(shown[values > 0], values[values > 0])


def test_one_path():
    path = ssvm_path(SSVMClassifier(), [[0.0], [1.0]], [0, 1], epsilon=0.9)
    _, ax = plt.subplots()
    display = PathDisplay.from_path(path, ax=ax, color="red", name="path")
    assert display.ax_ is ax
    assert display.lines_[0].get_color() == "red"
    with pytest.raises(ValueError, match="needs scores"):
        PathDisplay.from_path(path, y="score")
    with pytest.raises(ValueError, match="y must be one of"):
        PathDisplay.from_path(path, y="gaps")
