import inspect
import pickle
import re
import warnings

import numpy as np
import pytest
from reference import Chain
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils import get_tags

from sksstruct import ChainCRF, SegmentCRF, SSVMClassifier
from sksstruct.datasets import fetch_ocr_letters, make_chain
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.losses import SmoothedHinge
from sksstruct.metrics import token_accuracy_score, token_accuracy_scorer
from sksstruct.models import GraphModel
from sksstruct.solvers import BCFW
from sksstruct.utils.estimator_checks import CHECKS
from sksstruct.utils.packed import PackedSequences


@pytest.fixture
def data():
    return make_chain(40, random_state=0)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(
    "estimator",
    [
        ChainCRF(),
        # steps that are not pairwise take long to the optimum unless alpha is large
        ChainCRF(1.0, solver="bcfw", class_weight="balanced"),
        ChainCRF(
            0.1,
            solver=BCFW.as_published(step="pairwise", averaging=False, cache=True),
            boundary=False,
        ),
        ChainCRF(
            0.1,
            solver=BCFW.as_published(
                sampling="permutation", step="away", inner_steps=3
            ),
            fit_intercept=False,
        ),
    ],
    ids=["auto", "bcfw-balanced", "pairwise", "away"],
)
def test_contract(estimator, check):
    check(estimator)


def test_dual_gap_and_objective_equal_numpy(data):
    model = ChainCRF(0.03, random_state=0).fit(data.X, data.y)
    reference = Chain(data.X, data.y, 3)
    w = reference.flatten(model)
    assert model.objective_ == pytest.approx(reference.primal(w, 0.03), abs=1e-9)
    dual = model.dual_loss_ - 0.03 / 2 * (w @ w)
    assert model.objective_ - model.dual_gap_ == pytest.approx(dual, abs=1e-9)
    assert model.dual_gap_ <= 3e-3 * reference.primal(np.zeros_like(w), 0.03)
    assert model.history_["gap"][-1] == model.dual_gap_
    assert model.n_iter_ == model.history_["pass"][-1]


def test_prediction_is_the_best_labeling(data):
    """Scores agree with NumPy, also those of `decision_function`."""
    model = ChainCRF(0.03, random_state=0).fit(data.X, data.y)
    reference = Chain(data.X, data.y, 3)
    w = reference.flatten(model)
    scores = model.decision_function(data.X)
    for i, labels in enumerate(model.predict(data.X)):
        value = w @ reference.feature_map(i, labels)
        assert scores[i] == pytest.approx(value, abs=1e-10)
        unary, pairwise = reference.potentials(i, w)
        best = unary[0]
        for row in unary[1:]:
            best = (best[:, None] + pairwise).max(axis=0) + row
        assert value == pytest.approx(best.max(), abs=1e-10)


def test_class_weight_is_the_loss_of_missing_a_label(data):
    costs = np.array([1.0, 5.0, 0.25])
    weight = {1: 5.0, 2: 0.25}
    model = ChainCRF(0.03, class_weight=weight, random_state=0).fit(data.X, data.y)
    reference = Chain(data.X, data.y, 3, costs=costs)
    w = reference.flatten(model)
    assert model.objective_ == pytest.approx(reference.primal(w, 0.03), abs=1e-9)
    plain = ChainCRF(0.03, random_state=0).fit(data.X, data.y)

    test = make_chain(400, noise=3.0, random_state=0)

    def share(tagger):
        return np.mean(np.concatenate(tagger.predict(test.X)) == 1)

    assert share(model) > share(plain) + 0.02


def test_score_counts_new_labels_as_errors(data):
    model = ChainCRF(random_state=0).fit(data.X, data.y)
    other = [np.full(len(row), 99) for row in data.y]
    assert model.score(data.X, other) == 0.0
    weight = np.zeros(40)
    weight[3] = 1
    alone = model.score([data.X[3]], [data.y[3]])
    assert model.score(data.X, data.y, sample_weight=weight) == alone


@pytest.mark.parametrize("form", [list, np.array])
def test_cross_validation_with_folds_that_lack_a_label(form):
    """An estimator type would have them stratified, which lists of lists cannot be."""
    assert get_tags(ChainCRF()).estimator_type is None
    rng = np.random.RandomState(0)
    X = [rng.normal(size=(3, 2)) for _ in range(9)]
    y = [form(row) for row in [["a", "b", "a"]] * 8 + [["z", "z", "z"]]]
    scores = cross_val_score(ChainCRF(), X, y, cv=3, scoring=token_accuracy_scorer)
    assert np.isfinite(scores).all() and scores[-1] <= 2 / 3


def test_help_begins_with_an_example_and_groups_the_parameters():
    """Each parameter is in one group, and the groups are in the order of the list."""
    text = inspect.getdoc(ChainCRF)
    begin, _, rest = text.partition("these groups:")
    assert ">>> tagger.predict(" in begin and "Parameters\n---" not in begin
    groups, _, rest = rest.partition("The score of labels y")
    names = list(inspect.signature(ChainCRF).parameters)
    listed = re.findall(
        r"^(\w+) : ", rest.partition("Attributes\n---")[0], re.MULTILINE
    )
    assert listed == names
    grouped = [re.findall(r"`(\w+)`", group) for group in groups.split("\n* ")]
    assert set().union(*grouped) == set(names)
    places = [[names.index(name) for name in group] for group in grouped if group]
    assert [min(group) for group in places] == sorted(min(group) for group in places)


def test_arrays_in_arrays_out():
    """Labels of a 3-D array can be compared with a 2-D y; lists stay ragged."""
    X = np.random.RandomState(0).normal(size=(6, 4, 3))
    y = X.argmax(axis=2)
    model = ChainCRF(random_state=0).fit(X, y)
    found = model.predict(X)
    assert found.shape == y.shape and found.dtype == y.dtype
    assert (found == y).mean() == model.score(X, y) == token_accuracy_score(y, found)
    ragged = model.predict(list(X))
    assert ragged.shape == (6,) and np.array_equal(np.stack(ragged), found)
    assert cross_val_predict(model, X, y, cv=2).shape == y.shape
    scores = model.decision_function(X)
    np.testing.assert_array_equal(scores, model.decision_function(list(X)))


@pytest.mark.parametrize("form", ["tags", "labels", "segments"])
def test_arrays_in_arrays_out_of_segments(form):
    """Tags and labels of a 3-D array are a 2-D array; segments stay lists."""
    X = np.random.RandomState(0).normal(size=(6, 4, 2))
    y = np.where(X[:, :, 0] > 0, "B-a", "O" if form == "tags" else "b")
    if form == "segments":
        y = [[(0, 1, "a"), (2, 4, "b")] for _ in X]
    elif form == "labels":
        y = np.where(y == "B-a", "a", "b")
    model = SegmentCRF(random_state=0).fit(X, y)
    found, ragged = model.predict(X), model.predict(list(X))
    assert ragged.shape == (6,)
    if form == "segments":
        assert found.tolist() == ragged.tolist() and found.dtype == object
    else:
        assert found.shape == (6, 4) and np.array_equal(np.stack(ragged), found)
        assert (found == y).mean() == model.score(X, y)


def test_weights_of_positions(data):
    """They are refused with what to use, in lists and in arrays."""
    X, y = np.ones((2, 3, 1)), [["a", "b", "a"], ["b", "a", "b"]]
    model = ChainCRF().fit(X, y)
    for weight in (np.ones((2, 3)), [[1, 1, 1], np.ones(2)]):
        for method in (model.fit, model.score, model.partial_fit):
            with pytest.raises(ValueError, match=r"sample_weight must .* class_weight"):
                method(X, y, sample_weight=weight)


def test_grid_search_over_alpha_and_solver(data):
    search = GridSearchCV(
        ChainCRF(solver=BCFW(max_iter=20), random_state=0),
        {"alpha": [0.01, 0.1], "solver__sampling": ["gap", "uniform"]},
        cv=2,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(data.X, data.y, sample_weight=np.ones(40))
    assert set(search.best_params_) == {"alpha", "solver__sampling"}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_class_weight_of_a_label_that_a_fold_lacks():
    X = [np.eye(3)] * 9
    y = [["a", "b", "a"]] * 8 + [["a", "b", "z"]]
    model = ChainCRF(class_weight={"a": 1.0, "b": 1.0, "z": 2.0})
    scores = cross_val_score(model, X, y, cv=3, scoring=token_accuracy_scorer)
    assert np.isfinite(scores).all()
    # as in scikit-learn: there must be no label whose name may be misspelled
    model.set_params(class_weight={"z": 2.0}).fit(X, y)
    flat = LogisticRegression(class_weight={"z": 2.0})
    for estimator, inputs, labels in (
        (model, X[:3], y[:3]),
        (flat, np.eye(3), ["a", "b", "a"]),
        (SSVMClassifier(GraphModel(class_weight={"z": 2.0})), [(X[0], [])], y[:1]),
    ):
        with pytest.raises(ValueError, match="class_weight"):
            estimator.fit(inputs, labels)
    with pytest.raises(ValueError, match=r"names 'z', .* these are 'a', 'b'\. If"):
        clone(model).partial_fit(X, y[:1] * 9, classes=["a", "b"])


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_features_of_any_scale(data, scale):
    """Neither a hang nor a false certificate."""
    model = ChainCRF(0.01, max_iter=50, random_state=0)
    X = [scale * x for x in data.X]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(X, data.y)
        except ValueError as error:
            assert "broke down" in str(error)
            return
    reference = Chain(X, data.y, 3)
    w = reference.flatten(model)
    assert model.objective_ == pytest.approx(reference.primal(w, 0.01), rel=1e-6)


def test_pipeline_from_dicts():
    X = [[{"w": "he"}, {"w": "ran", "n": 2.0}], [{"w": "she"}, {"w": "sat"}]] * 3
    y = [["P", "V"], ["P", "V"]] * 3
    pipeline = make_pipeline(SequenceVectorizer(), ChainCRF(0.01)).fit(X, y)
    assert pipeline.score(X, y) == 1.0
    tagger = pipeline[-1]
    assert tagger.feature_names_in_.tolist() == ["w=he", "w=ran", "n", "w=she", "w=sat"]
    assert tagger.state_features_[("w=he", "P")] > 0
    assert tagger.transition_features_[("P", "V")] > 0
    cross_val_score(pipeline, X, y, cv=2)


def test_csr_with_explicit_zeros_unsorted_and_duplicate_entries():
    rng = np.random.RandomState(0)
    dense = [
        rng.normal(size=(3, 5)) * (rng.uniform(size=(3, 5)) < 0.5) for _ in range(8)
    ]
    y = [[0, 1, 2]] * 8
    awkward = []
    for x in dense:
        rows, columns = np.nonzero(np.ones_like(x))  # zeros stay, explicit
        half = x[rows, columns] / 2
        awkward.append(
            sparse.csr_array(
                (
                    np.concatenate([half, half]).reshape(2, 3, 5)[:, :, ::-1]
                    .transpose(1, 0, 2).ravel(),
                    np.tile(np.tile(np.arange(5)[::-1], 2), 3),
                    np.array([0, 10, 20, 30]),
                ),
                shape=(3, 5),
            )
        )  # fmt: skip
        assert not awkward[-1].has_canonical_format
    before = [x.indices.copy() for x in awkward]
    solver = BCFW.as_published(
        sampling="permutation", averaging=False, max_iter=30, tol=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        a = ChainCRF(0.01, solver=solver, random_state=0).fit(awkward, y)
        b = ChainCRF(0.01, solver=solver, random_state=0).fit(dense, y)
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-10)
    for x, indices in zip(awkward, before, strict=True):
        np.testing.assert_array_equal(x.indices, indices)


def test_memmap(tmp_path, data):
    path = tmp_path / "rows.npy"
    np.save(path, np.vstack(data.X))
    rows = np.load(path, mmap_mode="r")
    packed = PackedSequences.from_lengths(rows, [len(x) for x in data.X])
    # features on disk are not centered
    auto = ChainCRF(random_state=0).fit(packed, data.y)
    assert auto.alpha_ == ChainCRF(random_state=0).fit(data.X, data.y).alpha_
    scaling = auto.intercept_scaling_
    expected = ChainCRF(auto.alpha_, intercept_scaling=scaling, random_state=0)
    expected.fit(data.X, data.y)
    np.testing.assert_array_equal(auto.coef_, expected.coef_)
    model = clone(expected).fit(packed, data.y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    ends = np.cumsum([0] + [len(x) for x in data.X])
    parts = [rows[a:b] for a, b in zip(ends[:-1], ends[1:], strict=True)]
    np.testing.assert_array_equal(
        model.decision_function(parts), expected.decision_function(data.X)
    )


def test_data_frames_give_feature_names(data):
    pd = pytest.importorskip("pandas")
    names = [f"f{j}" for j in range(10)]
    frames = [pd.DataFrame(x, columns=names) for x in data.X]
    model = ChainCRF().fit(frames, data.y)
    assert model.feature_names_in_.tolist() == names
    with pytest.raises(ValueError, match="other feature names"):
        model.predict([frame[names[::-1]] for frame in frames])


class TestPartialFit:
    def test_learns_from_a_stream(self, data):
        test = make_chain(100, random_state=0)
        model = ChainCRF(0.001, random_state=0)
        for _ in range(5):
            for k in range(0, 100, 10):
                model.partial_fit(
                    test.X[k : k + 10], test.y[k : k + 10], classes=[0, 1, 2]
                )
        full = ChainCRF(0.001, random_state=0).fit(test.X, test.y)
        assert model.n_seen_ == 500
        assert model.score(test.X, test.y) > full.score(test.X, test.y) - 0.05

    def test_one_batch_is_one_pass_of_the_solver(self, data):
        """The first mini-batch is the first pass of plain BCFW on it."""
        solver = BCFW.as_published(sampling="permutation", averaging=False, max_iter=1)
        model = ChainCRF(0.1, solver=solver, random_state=0)
        model.partial_fit(data.X, data.y, classes=[0, 1, 2])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            same = ChainCRF(0.1, solver=solver, random_state=0).fit(data.X, data.y)
        np.testing.assert_allclose(model.coef_, same.coef_, atol=1e-12)

    def test_labels_to_come(self, data):
        model = ChainCRF().partial_fit(data.X, data.y, classes=[0, 1, 2, 3])
        assert model.classes_.tolist() == [0, 1, 2, 3]
        model.partial_fit(data.X[:3], [np.full(len(row), 3) for row in data.y[:3]])

    def test_after_fit(self, data):
        model = ChainCRF(random_state=0).fit(data.X, data.y)
        before = model.score(data.X, data.y)
        model.partial_fit(data.X[:5], data.y[:5])
        assert model.n_seen_ == 45
        assert not hasattr(model, "dual_gap_")
        assert abs(model.score(data.X, data.y) - before) < 0.1
        model.fit(data.X, data.y)
        assert model.score(data.X, data.y) == before

    def test_survives_pickle(self, data):
        model = ChainCRF(random_state=0).partial_fit(data.X, data.y, classes=[0, 1, 2])
        twin = pickle.loads(pickle.dumps(model))
        for tagger in (model, twin):
            tagger.partial_fit(data.X, data.y)
        np.testing.assert_array_equal(model.coef_, twin.coef_)

    def test_errors(self, data):
        with pytest.raises(ValueError, match="classes must be given"):
            ChainCRF().partial_fit(data.X, data.y)
        with pytest.raises(ValueError, match=r"y\[.*not in classes"):
            ChainCRF().partial_fit(data.X, data.y, classes=[0, 1])
        model = ChainCRF().partial_fit(data.X, data.y, classes=[0, 1, 2])
        with pytest.raises(ValueError, match="classes must be those of the first"):
            model.partial_fit(data.X, data.y, classes=[0, 1])
        with pytest.raises(ValueError, match="features"):
            model.partial_fit([x[:, :2] for x in data.X], data.y)
        with pytest.raises(ValueError, match="bounds"):
            ChainCRF(solver=BCFW(bounds={})).partial_fit(
                data.X, data.y, classes=range(3)
            )
        with np.errstate(all="ignore"), pytest.raises(ValueError, match="broke down"):
            ChainCRF(1e-320).partial_fit(data.X, data.y, classes=[0, 1, 2])
        with pytest.raises(ValueError, match="balanced"):
            ChainCRF(class_weight="balanced").partial_fit(
                data.X, data.y, classes=range(3)
            )

    def test_scale_of_the_weights_and_alpha(self, data):
        def weights(scale, alphas):
            model = ChainCRF(random_state=0)
            for k, alpha in enumerate(alphas):
                part = slice(10 * k, 10 * k + 10)
                model.set_params(alpha=alpha).partial_fit(
                    data.X[part],
                    data.y[part],
                    classes=[0, 1, 2],
                    sample_weight=np.full(10, scale),
                )
            return model.coef_

        np.testing.assert_allclose(weights(1.0, [0.1] * 3), weights(1e3, [0.1] * 3))
        # what was learned before shrinks with a stronger regularization
        strong = np.abs(weights(1.0, [0.1, 100.0])).max()
        assert strong < 0.25 * np.abs(weights(1.0, [0.1, 0.1])).max()

    def test_earlier_sequences_lose_weight(self, data):
        """A batch without features halves what an equal batch has learned."""
        solver = BCFW.as_published(sampling="permutation", averaging=False)
        model = ChainCRF(0.1, solver=solver, random_state=0, fit_intercept=False)
        model.partial_fit(data.X, data.y, classes=[0, 1, 2])
        before = model.coef_.copy()
        model.partial_fit([np.zeros_like(x) for x in data.X], data.y)
        np.testing.assert_allclose(model.coef_, before / 2, rtol=1e-12)

    def test_averages_over_batches(self, data):
        """Batches of one: every iterate can be seen, and is averaged by the paper."""
        solver = BCFW.as_published(sampling="permutation", averaging=True, max_iter=1)
        model = ChainCRF(0.1, solver=solver, random_state=0)
        plain = ChainCRF(
            0.1, solver=BCFW.as_published(sampling="permutation", averaging=False)
        )
        mean = 0.0
        for k in range(4):
            part = slice(k, k + 1)
            for tagger in (model, plain):
                tagger.partial_fit(data.X[part], data.y[part], classes=[0, 1, 2])
            mean = k / (k + 2) * mean + 2 / (k + 2) * plain.coef_
        np.testing.assert_allclose(model.coef_, mean, atol=1e-12)

    def test_feature_names(self, data):
        pd = pytest.importorskip("pandas")
        frames = [pd.DataFrame(x, columns=list("abcdefghij")) for x in data.X]
        model = ChainCRF().partial_fit(frames, data.y, classes=[0, 1, 2])
        with pytest.raises(ValueError, match="other feature names"):
            model.partial_fit([f[list("jihgfedcba")] for f in frames], data.y)


class TestWarmStart:
    @pytest.mark.parametrize("solver", ["auto", "bcfw"])
    def test_goes_on_from_the_dual_variables(self, data, solver):
        model = ChainCRF(0.05, solver=solver, warm_start=True, random_state=0, tol=1e-2)
        model.set_params(tol=0, max_iter=20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            last = model.fit(data.X, data.y).history_["dual"][-1]
            cold = clone(model).set_params(max_iter=1).fit(data.X, data.y)
            model.set_params(max_iter=1).fit(data.X, data.y)
        assert cold.history_["dual"][0] < 0.9 * last  # a fresh start is far from there
        assert model.history_["dual"][0] > 0.97 * last
        model.set_params(tol=1e-2, max_iter=1000)
        # another alpha, weights formed anew from the same dual variables
        model.set_params(alpha=0.04).fit(data.X, data.y)
        cold = clone(model).set_params(warm_start=False).fit(data.X, data.y)
        assert model.n_iter_ <= cold.n_iter_
        assert (
            abs(model.objective_ - cold.objective_) <= model.dual_gap_ + cold.dual_gap_
        )

    @pytest.mark.parametrize("solver", ["auto", "bcfw"])
    def test_other_costs_and_labels(self, data, solver):
        """The linear term is formed anew: the certificate stays true."""
        model = ChainCRF(0.05, solver=solver, warm_start=True, random_state=0, tol=1e-2)
        model.fit(data.X, data.y)
        model.set_params(class_weight={0: 3.0})
        shifted = [(row + 1) % 3 for row in data.y]
        model.fit(data.X, shifted)
        reference = Chain(data.X, shifted, 3, costs=np.array([3.0, 1.0, 1.0]))
        w = reference.flatten(model)
        assert model.objective_ == pytest.approx(reference.primal(w, 0.05), abs=1e-9)
        cold = clone(model).set_params(tol=1e-3, solver="auto").fit(data.X, shifted)
        assert model.objective_ - model.dual_gap_ <= cold.objective_ + 1e-9

    def test_other_data_start_afresh_with_a_warning(self, data):
        model = ChainCRF(warm_start=True, random_state=0).fit(data.X, data.y)
        with pytest.warns(UserWarning, match="training starts from zero"):
            model.fit(data.X[:20], data.y[:20])
        cold = ChainCRF(random_state=0).fit(data.X[:20], data.y[:20])
        np.testing.assert_array_equal(model.coef_, cold.coef_)


class TestInterruptions:
    def test_interrupt_leaves_a_usable_model(self, data, monkeypatch):
        from sksstruct.solvers.frank_wolfe.bcfw import BCFWState

        passes = []
        one_pass = BCFWState.one_pass

        def interrupted(self, *arguments):
            if len(passes) == 3:
                raise KeyboardInterrupt
            passes.append(1)
            one_pass(self, *arguments)

        monkeypatch.setattr(BCFWState, "one_pass", interrupted)
        model = ChainCRF(1e-4, tol=0, random_state=0)
        with pytest.raises(KeyboardInterrupt, match="after 3 passes"):
            model.fit(data.X, data.y)
        assert model.n_iter_ == 3
        reference = Chain(data.X, data.y, 3)
        w = reference.flatten(model)
        assert model.objective_ == pytest.approx(reference.primal(w, 1e-4), abs=1e-9)
        assert len(model.predict(data.X)) == 40

    def test_convergence_warning_names_gap_tolerance_and_remedy(self, data):
        with pytest.warns(ConvergenceWarning) as record:
            ChainCRF(0.02, max_iter=2, tol=1e-5).fit(data.X, data.y)
        message = str(record[0].message)
        assert "duality gap is" in message and "tolerance 1e-05" in message
        assert "max_iter" in message
        assert record[0].filename == __file__

    @pytest.mark.usefixtures("callbacks")
    def test_callbacks(self, data, capsys):
        class Stop:
            def __init__(self):
                self.seen = []

            def setup(self, estimator, context):
                self.seen.append("setup")

            def on_fit_task_begin(self, estimator, context):
                pass

            def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
                if context.task_name == "pass":
                    self.seen.append(fitted_estimator.score(data.X, data.y))
                return len(self.seen) == 4

            def teardown(self, estimator, context):
                self.seen.append("teardown")

        callback = Stop()
        model = ChainCRF(1e-4, tol=0, random_state=0).set_callbacks(callback)
        model.fit(data.X, data.y)
        assert model.n_iter_ == 3
        assert callback.seen[0] == "setup" and callback.seen[-1] == "teardown"
        assert callback.seen[3] == model.score(data.X, data.y)

    def test_scikit_learns_own_callbacks(self, data, capsys, callbacks):
        monitor = callbacks.ScoringMonitor(scoring={"accuracy": token_accuracy_scorer})
        model = ChainCRF(random_state=0).set_callbacks(callbacks.ProgressBar(), monitor)
        model.fit(data.X, data.y)
        assert "ChainCRF" in capsys.readouterr().out
        search = GridSearchCV(ChainCRF(), {"alpha": [0.1, 1.0]}, cv=2)
        search.set_callbacks(callbacks.ProgressBar()).fit(data.X, data.y)
        assert "ChainCRF" in capsys.readouterr().out

    def test_attributes_of_a_subclass_stay(self, data):
        class Tagger(ChainCRF):
            def fit(self, X, y):
                self.vocabulary_ = ["a"]
                return super().fit(X, y)

        model = Tagger(tol=0.1, random_state=0)
        for train in (model.fit, model.fit, model.partial_fit):
            train(data.X, data.y)
            assert model.vocabulary_ == ["a"]

    def test_verbose(self, data, capsys):
        ChainCRF(verbose=1, random_state=0).fit(data.X, data.y)
        lines = capsys.readouterr().out.splitlines()
        assert lines and all("primal" in line and "gap" in line for line in lines)
        ChainCRF(random_state=0).fit(data.X, data.y)
        assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"alpha": 0, "solver": "bcfw"}, ValueError, "alpha"),
        ({"alpha": -1.0}, ValueError, "alpha"),
        ({"alpha": np.inf}, ValueError, "alpha"),
        ({"alpha": np.nan}, ValueError, "alpha"),
        ({"alpha": "small"}, ValueError, "alpha"),
        ({"loss": "squared"}, ValueError, "loss"),
        ({"loss": "log", "solver": "bcfw"}, ValueError, "'lbfgs'"),
        ({"solver": "lbfgs"}, ValueError, "LBFGS needs a gradient"),
        ({"loss": "log", "class_weight": "balanced"}, ValueError, "class_weight"),
        ({"loss": SmoothedHinge("l1")}, ValueError, "smoothing"),
        ({"loss": SmoothedHinge(mu=0)}, ValueError, "mu"),
        ({"all_possible_states": False}, ValueError, "all_possible_states"),
        ({"forbidden_transitions": "iob"}, ValueError, "forbidden_transitions"),
        ({"forbidden_transitions": [(0,)]}, TypeError, "pairs"),
        ({"forbidden_transitions": [(None, None)]}, ValueError, "without a label"),
        ({"solver": "adam"}, ValueError, "unknown solver 'adam'; the names are"),
        ({"solver": 3}, TypeError, "solver must be a name or an object"),
        ({"solver": BCFW}, TypeError, "solver must be a name or an object"),
        ({"solver": BCFW(step="x")}, ValueError, "step"),
        ({"max_iter": 0}, ValueError, "max_iter"),
        ({"tol": -1}, ValueError, "tol"),
        ({"fit_intercept": "no"}, ValueError, "fit_intercept"),
        ({"class_weight": {0: "x"}}, ValueError, "class_weight must map"),
        ({"class_weight": {0: -1.0}}, ValueError, "class_weight"),
        ({"random_state": "a"}, ValueError, "random_state"),
    ],
    ids=str,
)
def test_bad_parameters(data, parameters, error, message):
    model = ChainCRF(**parameters)
    with pytest.raises(error, match=message):
        model.fit(data.X, data.y)
    assert not hasattr(model, "coef_")


def test_skops_round_trip(tmp_path, data):
    skops = pytest.importorskip("skops.io")
    model = ChainCRF(solver=BCFW(tol=0.1), alpha=0.1).fit(data.X, data.y)
    path = tmp_path / "model.skops"
    skops.dump(model, path)
    trusted = skops.get_untrusted_types(file=path)
    assert all(name.startswith("sksstruct.") for name in trusted), trusted
    twin = skops.load(path, trusted=trusted)
    np.testing.assert_array_equal(
        twin.decision_function(data.X), model.decision_function(data.X)
    )


@pytest.mark.parametrize("averaging", [False, True])
def test_prediction_reads_coef_in_place(data, averaging):
    """No copy of the weights per call, also after a pickle, and edits take effect."""
    from sksstruct.models.chain.fitted import padded_rows

    solver = BCFW.as_published(averaging=averaging, tol=0.1)
    model = ChainCRF(solver=solver, random_state=0).fit(data.X, data.y)
    for tagger in (model, pickle.loads(pickle.dumps(model))):
        assert np.shares_memory(padded_rows(tagger.coef_, 4), tagger.coef_)
        before = tagger.decision_function(data.X)
        tagger.coef_[0] += 1.0
        assert (tagger.decision_function(data.X) != before).any()
        tagger.coef_ = np.array(tagger.coef_)  # any other layout is copied
        assert not np.shares_memory(padded_rows(tagger.coef_, 4), tagger.coef_)
        tagger.coef_[0] -= 1.0
        np.testing.assert_allclose(tagger.decision_function(data.X), before)


def test_repr_and_html(data):
    model = ChainCRF(alpha=0.5, solver=BCFW(step="away"))
    assert repr(model) == "ChainCRF(alpha=0.5, solver=BCFW(step='away'))"
    assert "ChainCRF" in model.fit(data.X, data.y)._repr_html_()


@pytest.mark.slow
def test_ocr_small_figures(data_home):
    """Figures that two independent implementations agree on."""
    small = fetch_ocr_letters("fold0", data_home=data_home)
    solver = BCFW.as_published(
        sampling="permutation", averaging=False, max_iter=50, tol=0, check_every=50
    )
    primal = []
    for seed in range(4):  # the last iterate's primal is noisy: +- 0.008
        model = ChainCRF(
            1 / 626, loss_normalization="sequence", solver=solver, random_state=seed
        )
        with pytest.warns(ConvergenceWarning):
            model.fit(small.X, small.y)
        dual = model.objective_ - model.dual_gap_
        assert dual == pytest.approx(0.0179, abs=0.0003)
        primal.append(model.objective_)
    assert model.coef_.size + 3 * 26 + model.transitions_.size == 4082
    assert np.mean(primal) == pytest.approx(0.16, abs=0.01)
    codes = [np.array([ord(c) - ord("a") for c in word]) for word in small.y]
    reference = Chain(small.X, codes, 26, length=None)
    w = reference.flatten(model)
    assert model.objective_ == pytest.approx(reference.primal(w, 1 / 626), abs=1e-9)
    assert dual == pytest.approx(model.dual_loss_ - w @ w / 626 / 2, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "low", "high"),
    [
        (0.01, 0.165030, 0.165032),
        (1 / 626, 0.049081, 0.049108),
    ],
)
def test_ocr_small_optimum(data_home, alpha, low, high):
    small = fetch_ocr_letters("fold0", data_home=data_home)
    model = ChainCRF(
        alpha, loss_normalization="sequence", tol=0.002, random_state=0
    ).fit(small.X, small.y)
    assert model.objective_ >= low
    assert model.objective_ - model.dual_gap_ <= high
    assert model.dual_gap_ <= 0.002
