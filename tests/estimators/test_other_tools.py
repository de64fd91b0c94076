"""What Optuna, MLflow, dask-ml and scikit-multilearn do with estimators."""

import logging

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

from sksstruct import ChainCRF, MultilabelPairwise, SSVMClassifier
from sksstruct.datasets import load_digit_strings


@pytest.fixture(scope="module")
def digits():
    data = load_digit_strings()
    return list(data.X_train[:30]), list(data.y_train[:30])


@pytest.fixture(scope="module")
def label_sets():
    return make_multilabel_classification(120, 8, n_classes=4, random_state=0)


def test_label_sets_fit_no_estimator_of_scikit_learn(label_sets, monkeypatch):
    # tools that record fits would take it for the user's
    def fit(*args, **kwargs):
        raise AssertionError("a fit that is not the user's")

    monkeypatch.setattr(LogisticRegression, "fit", fit)
    MultilabelPairwise(random_state=0).fit(*label_sets)


@pytest.mark.filterwarnings("ignore:OptunaSearchCV is experimental")
@pytest.mark.filterwarnings("ignore:`optuna.terminator`:FutureWarning")
def test_optuna(digits, label_sets):
    optuna = pytest.importorskip("optuna")
    integration = pytest.importorskip("optuna_integration")
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def objective(trial):
        alpha = trial.suggest_float("alpha", 1e-3, 1e6, log=True)
        estimator = ChainCRF(alpha=alpha, random_state=0)
        return cross_val_score(estimator, *digits, cv=2).mean()

    sampler = optuna.samplers.RandomSampler(seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=4)
    assert study.best_value == max(trial.value for trial in study.trials) > 0.5
    alphas = {"alpha": optuna.distributions.FloatDistribution(1e-3, 1.0, log=True)}
    for estimator, (X, y) in (
        (ChainCRF(random_state=0), digits),
        (MultilabelPairwise(interaction_scaling=0, random_state=0), label_sets),
    ):
        search = integration.OptunaSearchCV(estimator, alphas, n_trials=2, cv=2)
        search.fit(X, y)
        assert search.score(X, y) == search.best_estimator_.score(X, y)


@pytest.mark.filterwarnings("ignore")
def test_mlflow(digits, tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    skops = pytest.importorskip("skops.io")
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    logging.getLogger("alembic").setLevel(logging.ERROR)
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    X, y = digits
    tagger = ChainCRF(random_state=0).fit(X, y)
    with mlflow.start_run():
        mlflow.log_params(tagger.get_params())
        for step, gap in enumerate(tagger.history_["gap"]):
            mlflow.log_metric("gap", gap, step)
        types = skops.get_untrusted_types(data=skops.dumps(tagger))
        info = mlflow.sklearn.log_model(
            tagger, name="tagger", skops_trusted_types=types
        )
    loaded = mlflow.sklearn.load_model(info.model_uri)
    for a, b in zip(loaded.predict(X), tagger.predict(X), strict=True):
        np.testing.assert_array_equal(a, b)
    mlflow.sklearn.autolog(log_models=False, silent=True)
    try:
        with mlflow.start_run() as run:
            pipeline = make_pipeline(ChainCRF(random_state=0)).fit(X, y)
    finally:
        mlflow.sklearn.autolog(disable=True, silent=True)
    data = mlflow.get_run(run.info.run_id).data
    assert data.params["chaincrf__random_state"] == "0"
    assert data.metrics["training_score"] == pytest.approx(pipeline.score(X, y))


@pytest.mark.filterwarnings("ignore")
def test_dask_ml(digits, label_sets):
    search = pytest.importorskip("dask_ml.model_selection").GridSearchCV
    from dask_ml.wrappers import ParallelPostFit

    array = pytest.importorskip("dask.array")
    grid = {"alpha": [1e6, 0.1]}
    found = search(ChainCRF(random_state=0), grid, cv=2).fit(*digits)
    assert found.best_params_ == {"alpha": 0.1}
    X, y = load_iris(return_X_y=True)
    blocks = array.from_array(X, chunks=(50, 4))
    classifier = SSVMClassifier(random_state=0).fit(X, y)
    spread = ParallelPostFit(classifier).predict(blocks).compute()
    np.testing.assert_array_equal(spread, classifier.predict(X))
    X, Y = label_sets
    classifier = MultilabelPairwise(interaction_scaling=0, random_state=0).fit(X, Y)
    blocks = array.from_array(X, chunks=(50, 8))
    chunks = (blocks.chunks[0], (len(classifier.classes_),))
    meta = np.empty((0, 0), dtype=int)
    spread = blocks.map_blocks(classifier.predict, chunks=chunks, meta=meta)
    np.testing.assert_array_equal(spread.compute(), classifier.predict(X))


@pytest.mark.filterwarnings("ignore")
def test_scikit_multilearn(label_sets):
    problem_transform = pytest.importorskip("skmultilearn.problem_transform")
    from skmultilearn.model_selection import IterativeStratification

    X, Y = label_sets
    peer = problem_transform.BinaryRelevance(SSVMClassifier(random_state=0))
    assert peer.fit(X, Y).predict(X).shape == Y.shape
    folds = IterativeStratification(n_splits=3, order=1)
    estimator = MultilabelPairwise(0.1, interaction_scaling=0, random_state=0)
    scores = cross_val_score(estimator, X, Y, cv=folds, error_score="raise")
    assert len(scores) == 3
