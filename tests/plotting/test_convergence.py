import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sksstruct import ChainCRF, LinearSSVC
from sksstruct.datasets import make_chain
from sksstruct.plotting import ConvergenceDisplay

plt = pytest.importorskip("matplotlib.pyplot")
plt.switch_backend("Agg")


@pytest.fixture
def tagger():
    data = make_chain(20, random_state=0)
    # whose objective stays above the optimum that is drawn below
    tagger = ChainCRF(0.1, random_state=0, solver="bmrm", loss_normalization="sequence")
    return tagger.fit(data.X, data.y)


@pytest.fixture(autouse=True)
def no_figures_left():
    yield
    plt.close("all")


@pytest.mark.parametrize("x", ["seconds", "oracle_calls", "pass"])
@pytest.mark.parametrize("y", ["gap", "primal", "dual"])
def test_draws_the_trace(tagger, x, y):
    display = ConvergenceDisplay.from_estimator(tagger, x=x, y=y)
    drawn = display.line_.get_xydata()
    rows = np.isfinite(tagger.history_[y])
    if y == "gap":
        rows &= tagger.history_[y] > 0
    expected = np.column_stack([tagger.history_[x], tagger.history_[y]])[rows]
    np.testing.assert_array_equal(drawn, expected)
    assert display.line_.get_label() == "BMRM"
    assert display.ax_.get_yscale() == ("log" if y == "gap" else "linear")
    assert display.ax_.get_xlabel() and display.figure_ is display.ax_.figure


def test_several_runs_on_one_axes(tagger):
    first = ConvergenceDisplay.from_estimator(tagger, name="one")
    second = ConvergenceDisplay.from_estimator(
        tagger,
        y="suboptimality",
        optimum=0.01,
        ax=first.ax_,
        color="k",
    )
    assert second.ax_ is first.ax_ and len(first.ax_.lines) == 2
    np.testing.assert_allclose(
        second.line_.get_ydata(), tagger.history_["primal"] - 0.01
    )
    assert second.line_.get_color() == "k"
    names = [text.get_text() for text in first.ax_.get_legend().get_texts()]
    assert names == ["one", "BMRM"]


def test_pipelines_and_binary_problems():
    rng = np.random.RandomState(0)
    y = rng.randint(2, size=30)
    X = rng.normal(size=(30, 2)) + y[:, None]
    model = make_pipeline(StandardScaler(), LinearSSVC(0.1, solver="pragam")).fit(X, y)
    display = ConvergenceDisplay.from_estimator(model)
    assert display.line_.get_label() == "Pragam"


def test_bad_input(tagger):
    with pytest.raises(NotFittedError):
        ConvergenceDisplay.from_estimator(ChainCRF())
    with pytest.raises(ValueError, match="x must be one of"):
        ConvergenceDisplay.from_estimator(tagger, x="minutes")
    with pytest.raises(ValueError, match="y must be one of"):
        ConvergenceDisplay.from_estimator(tagger, y="loss")
    for kwargs in ({"y": "suboptimality"}, {"optimum": 0.1}):
        with pytest.raises(ValueError, match="optimum"):
            ConvergenceDisplay.from_estimator(tagger, **kwargs)
