"""Features of dense series, and scikit-learn's transformers on their rows."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, StandardScaler

from sksstruct import ChainCRF
from sksstruct.feature_extraction import RowTransformer, SeriesFeatures
from sksstruct.utils.packed import PackedSequences

# what np.pad calls the modes
MODES = {"nearest": "edge", "reflect": "symmetric", "mirror": "reflect"}
ALL = {
    "lags": (0, 2, -1),
    "differences": (1, -3),
    "windows": (2, 5, 40),
    "statistics": ("slope", "mean", "std"),
}
CAUSAL = ALL | {"lags": (0, 2), "differences": (1, 3), "causal": True}


def series(offset=0.0, lengths=(30, 1, 2, 0, 7), columns=2, dtype=np.float64):
    rng = np.random.RandomState(0)
    return [(rng.normal(size=(n, columns)) + offset).astype(dtype) for n in lengths]


def expected(x, parameters, mode):
    """The features of one series, in extended precision, window by window."""
    pad = 50
    ends = np.pad(x.astype(np.longdouble), ((pad, pad), (0, 0)), mode=MODES[mode])
    rows = []
    for t in range(pad, pad + len(x)):
        row = [ends[t - lag] for lag in parameters["lags"]]
        row += [ends[t] - ends[t - lag] for lag in parameters["differences"]]
        for size in parameters["windows"]:
            first = t - (size - 1 if parameters.get("causal") else size // 2)
            window, places = ends[first : first + size], np.arange(size)
            deviations = window - window.mean(axis=0)
            centered = places - places.mean()
            found = {
                "mean": window.mean(axis=0),
                "std": np.sqrt((deviations**2).mean(axis=0)),
                "slope": centered @ deviations / (centered @ centered),
            }
            row += [found[name] for name in parameters["statistics"]]
        rows.append(np.concatenate(row))
    return np.array(rows, dtype=float)


@pytest.mark.parametrize(
    ("parameters", "mode"), [*((ALL, mode) for mode in MODES), (CAUSAL, "nearest")]
)
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_equals_windows_one_by_one(parameters, mode, offset):
    X = series(offset)
    features = SeriesFeatures(mode=mode, **parameters)
    found = features.fit_transform(X)
    assert found.offsets.tolist() == [0, 30, 31, 33, 33, 40]
    for x, rows in zip(X, found, strict=True):
        if len(x):
            # numbers of 1e8 are 1.5e-8 apart
            np.testing.assert_allclose(
                rows, expected(x, parameters, mode), rtol=1e-13, atol=1e-7
            )


def test_deviations_of_a_level_that_jumps():
    """Neither a large mean nor a jump elsewhere in the series costs precision."""
    noise = np.random.RandomState(0).normal(size=(300, 1))
    x = noise + np.repeat([0.0, 1e7, 1e15], 100)[:, None]
    features = SeriesFeatures(lags=(), differences=(), windows=(8,), causal=True)
    found = features.fit_transform([x])[0]
    still = features.transform([noise])[0]
    np.testing.assert_allclose(found[7:100], still[7:100], rtol=1e-12)
    np.testing.assert_allclose(found[110:200, 1], still[110:200, 1], rtol=1e-7)
    constant = features.transform([np.full((20, 1), 1e8 + 0.1)])[0]
    assert (constant[:, 1] == 0.0).all()


def test_a_causal_feature_does_not_change_with_what_comes_later():
    (x,) = series(lengths=(60,))
    features = SeriesFeatures(**CAUSAL).fit([x])
    whole = features.transform([x])[0]
    before, after = features.context_
    assert (before, after) == (39, 0)
    for n in (1, 2, 30):
        np.testing.assert_array_equal(features.transform([x[:n]])[0], whole[:n])
    # no more of the past than it says
    tail = features.transform([x[59 - before :]])[0]
    np.testing.assert_array_equal(tail[-1], whole[-1])


def test_context_of_centered_features():
    (x,) = series(lengths=(80,))
    features = SeriesFeatures(**ALL).fit([x])
    before, after = features.context_
    assert (before, after) == (20, 19)
    part = features.transform([x[40 - before : 41 + after]])[0]
    np.testing.assert_array_equal(part[before], features.transform([x])[0][40])


def test_names_and_order_of_columns():
    features = SeriesFeatures(lags=(0, 2), differences=(-1,), windows=(3, 4))
    features.fit(series())
    names = features.get_feature_names_out()
    assert names.tolist()[:6] == [
        "x0", "x1", "x0_lag_2", "x1_lag_2", "x0_diff_-1", "x1_diff_-1",
    ]  # fmt: skip
    assert names[8] == "x0_std_3" and len(names) == 14
    named = features.get_feature_names_out(["a", "b"])
    assert named[-1] == "b_std_4"
    for wrong in (["a"], ["a", "b", "c"]):
        with pytest.raises(ValueError, match="input_features has"):
            features.get_feature_names_out(wrong)


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("missing", [False, True])
def test_data_frames(library, missing):
    frames = pytest.importorskip(library)
    X = series(lengths=(9, 4))
    if missing:
        X[1][2, 1] = np.nan
    tables = [frames.DataFrame({"a": x[:, 0], "b": x[:, 1]}) for x in X]
    features = SeriesFeatures(missing="indicator")
    plain = features.fit_transform(X).values
    found = clone(features).fit_transform(tables)
    np.testing.assert_array_equal(found.values, plain)
    assert list(found.feature_names)[:3] == ["a", "b", "a_diff_1"]
    assert ("b_missing" in found.feature_names) == missing
    fitted = clone(features).fit(tables)
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    with pytest.raises(ValueError, match="other feature names"):
        fitted.transform([tables[0][["b", "a"]]])
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        fitted.get_feature_names_out(["b", "a"])
    # names are those of the last fit
    assert not hasattr(fitted.fit(X), "feature_names_in_")


def test_missing_values_are_errors_that_say_where():
    X = series()
    X[4][3, 1] = np.nan
    with pytest.raises(ValueError, match=r"X\[4\] .*NaN.* at position 3 of column 1"):
        SeriesFeatures().fit(X)
    features = SeriesFeatures(missing="indicator").fit(series())
    with pytest.raises(
        ValueError, match=r"X\[4\] has a missing value at position 3 of column 'x1'"
    ):
        features.transform(X)
    X[4][3, 1] = np.inf
    with pytest.raises(ValueError, match=r"X\[4\] contains infinity, at position 3"):
        SeriesFeatures(missing="indicator").fit(X)


def test_missing_values_are_carried_on_within_a_series():
    nan = np.nan
    X = [[[1.0, 5.0], [nan, 6.0], [nan, 7.0], [3.0, 8.0]], [[nan, 9.0], [8.0, 1.0]]]
    features = SeriesFeatures(differences=(1,), windows=(), missing="indicator")
    found = features.fit_transform(X)
    assert features.means_.tolist() == [4.0, 6.0]
    assert features.missing_columns_.tolist() == [0]
    assert found.values[:, 0].tolist() == [1, 1, 1, 3, 4, 8]
    assert found.values[:, 2].tolist() == [0, 0, 0, 2, 0, 4]
    assert found.values[:, -1].tolist() == [0, 1, 1, 0, 1, 0]
    assert found.feature_names[-1] == "x0_missing"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"lags": (1.5,)}, "lags must be a list of whole numbers"),
        ({"lags": (1, 1)}, "lags has a number twice"),
        ({"differences": (0,)}, "differences must not have 0"),
        ({"windows": (1,)}, "windows must be at least 2, got 1"),
        ({"windows": (0,), "statistics": ("mean",)}, "at least 1, got 0"),
        ({"statistics": ("median",)}, "statistics must be among .* got 'median'"),
        ({"statistics": ("std", "std")}, "statistics has a name twice"),
        ({"lags": (-1,), "causal": True}, "must not be negative with causal=True"),
        ({"mode": "mirror", "causal": True}, "mode must be 'nearest' with causal"),
        ({"lags": (), "differences": (), "windows": ()}, "no column is left"),
        ({"mode": "wrap"}, "'mode' parameter"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        SeriesFeatures(**parameters).fit(series())


def test_bad_input():
    features = SeriesFeatures()
    with pytest.raises(NotFittedError):
        features.transform(series())
    with pytest.raises(TypeError, match="X is sparse"):
        features.fit([sparse.csr_array(np.eye(2))])
    with pytest.raises(ValueError, match="X is a 2-D array"):
        features.fit(np.eye(2))
    features.fit(series())
    with pytest.raises(ValueError, match="3 features"):
        features.transform(series(columns=3))
    with pytest.raises(ValueError, match=r"X_new\[1\] .* of column 'x0_std_11'"):
        features.transform([np.zeros((2, 2)), [[0.0, 0.0], [1e200, 0.0]]])


TRANSFORMERS = [
    SeriesFeatures(**ALL),
    RowTransformer(StandardScaler()),
    RowTransformer(PCA(1)),
]


@pytest.mark.parametrize("transformer", TRANSFORMERS, ids=repr)
def test_contract(transformer):
    transformer = clone(transformer)
    before = repr(transformer.get_params())
    X = series()
    copies = [x.copy() for x in X]
    for x in X:
        x.flags.writeable = False
    found = transformer.fit_transform(X)
    assert repr(transformer.get_params()) == before
    assert all(np.array_equal(x, copy) for x, copy in zip(X, copies, strict=True))
    assert transformer.n_features_in_ == 2
    assert isinstance(found, PackedSequences) and len(found) == len(X)
    assert len(transformer.get_feature_names_out()) == found.n_features
    again = pickle.loads(pickle.dumps(transformer))
    np.testing.assert_array_equal(again.transform(X).values, found.values)
    # each series on its own, in any form
    for x, rows in zip(X, found, strict=True):
        np.testing.assert_allclose(transformer.transform([x.tolist()])[0], rows)
    empty = transformer.transform([X[3]])
    assert empty.values.shape == (0, found.n_features)
    single = transformer.fit_transform(series(dtype=np.float32))
    assert single.values.dtype == np.float32
    np.testing.assert_allclose(single.values, found.values, atol=1e-4)
    cube = np.stack([x[:2] for x in X if len(x) > 1])
    np.testing.assert_array_equal(
        transformer.transform(cube).values, transformer.transform(list(cube)).values
    )


class TestRows:
    def test_rows_of_all_sequences(self):
        X = series(offset=3.0)
        found = RowTransformer(StandardScaler()).fit_transform(X)
        scaler = StandardScaler().fit(np.vstack(X))
        np.testing.assert_allclose(found.values, scaler.transform(np.vstack(X)))

    def test_sparse_rows_stay_sparse(self):
        X = [sparse.csr_array(np.eye(3) * [1, 2, 4]), sparse.csr_array((1, 3))]
        found = RowTransformer(MaxAbsScaler()).fit_transform(X)
        assert found.is_sparse and found[0].toarray().tolist() == np.eye(3).tolist()

    def test_missing_values_go_to_what_takes_them(self):
        X = [np.array([[1.0, np.nan], [3.0, 4.0]])]
        imputer = RowTransformer(SimpleImputer(add_indicator=True))
        assert imputer.fit_transform(X)[0].tolist() == [[1, 4, 1], [3, 4, 0]]
        with pytest.raises(ValueError, match="column 1"):
            RowTransformer(PCA(1)).fit(X)

    def test_labels_for_those_who_need_them(self):
        X, y = series(lengths=(20, 10)), [[0, 1] * 10, [1, 0] * 5]
        X = [x + np.c_[np.zeros(len(row)), row] for x, row in zip(X, y, strict=True)]
        best = RowTransformer(SelectKBest(k=1)).fit(X, y)
        assert best.get_feature_names_out().tolist() == ["x1"]

    def test_functions_and_other_forms_of_output(self):
        frames = pytest.importorskip("pandas")
        X = [frames.DataFrame(x, columns=["a", "b"]) for x in series()]
        absolute = RowTransformer(FunctionTransformer(np.abs)).fit(X)
        np.testing.assert_array_equal(absolute.transform(X)[0], np.abs(X[0]))
        assert absolute.transform([X[3]]).values.shape == (0, 2)
        scaler = RowTransformer(StandardScaler().set_output(transform="pandas"))
        found = scaler.fit_transform(X)
        assert list(found.feature_names) == ["a", "b"]
        np.testing.assert_allclose(found.values.std(axis=0), 1.0)

    def test_no_transformer(self):
        with pytest.raises(TypeError, match="fit and transform, got 3"):
            RowTransformer(3).fit(series())


def test_pipeline_grid_and_union():
    X = series(lengths=(12,) * 9)
    y = [(x[:, 0] > 0).astype(int) for x in X]
    steps = (
        SeriesFeatures(windows=(3,)),
        RowTransformer(StandardScaler()),
        ChainCRF(loss="log", random_state=0),
    )
    grid = {
        "seriesfeatures__windows": [(3,), (5,)],
        "rowtransformer__transformer__with_mean": [True, False],
    }
    search = GridSearchCV(make_pipeline(*steps), grid, cv=3).fit(X, y)
    assert search.score(X, y) > 0.9
    union = FeatureUnion([("raw", RowTransformer(PCA(2))), ("more", steps[0])])
    assert union.fit_transform(X).n_features == 2 + 8
