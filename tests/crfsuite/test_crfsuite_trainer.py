"""The drop-in for python-crfsuite and sklearn-crfsuite: training."""

import copy
import math
import os
import pickle

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import RandomizedSearchCV, cross_val_score
from sklearn.utils.validation import check_is_fitted

from sksstruct.crfsuite import CRF, ItemSequence, Tagger, Trainer

NAMES = ["lbfgs", "l2sgd", "ap", "pa", "arow"]


def sentences(n=60, seed=0):
    """Words that say something of their labels, values, and labels in no order."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        labels = rng.choice(["O", "B", "I"], rng.integers(1, 7)).tolist()
        X.append(
            [
                {"w": f"{label}{rng.integers(5)}", "é": float(rng.normal()), "n": t > 1}
                for t, label in enumerate(labels)
            ]
        )
        flip = rng.random(len(labels)) < 0.2
        y.append(["O" if f else x for f, x in zip(flip, labels, strict=True)])
    return X, y


def objective(path, X, y, c1, c2):
    """What CRFsuite minimizes, of a model."""
    tagger, total = Tagger(), 0.0
    tagger.open(path)
    for items, labels in zip(X, y, strict=True):
        tagger.set(items)
        total -= math.log(tagger.probability(labels))
    info = tagger.info()
    w = np.array([*info.transitions.values(), *info.state_features.values()])
    return total + c1 * np.abs(w).sum() + c2 * w @ w


def trained(kind, path, X, y, algorithm="lbfgs", **params):
    trainer = kind(algorithm, params, verbose=False)
    for items, labels in zip(X, y, strict=True):
        trainer.append(items, labels)
    trainer.train(str(path))
    return trainer


@pytest.mark.parametrize(
    ("algorithm", "params"),
    [
        ("lbfgs", {"c2": 1.0}),
        ("lbfgs", {"c1": 0.3, "c2": 0.1}),
        ("lbfgs", {"c2": 0.1, "feature.possible_states": True}),
        ("lbfgs", {"c1": 0.1, "c2": 0.1, "feature.possible_transitions": 1}),
        ("l2sgd", {"c2": 0.5}),
        ("lbfgs", {"c2": 1.0, "feature.minfreq": 6}),
        ("lbfgs", {"c2": 1.0, "feature.minfreq": -1e9}),
        ("lbfgs", {"c2": 0.5, "feature.minfreq": 3, "feature.possible_states": True}),
        ("lbfgs", {"c1": 0.5, "c2": 0.0}),
        ("lbfgs", {"c2": 0.0}),
    ],
)
def test_the_objective_is_that_of_crfsuite(algorithm, params, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = sentences()
    found = []
    for k, kind in enumerate([Trainer, pycrfsuite.Trainer]):
        path = tmp_path / str(k)
        trainer = trained(kind, path, X, y, algorithm, **params)
        c1, c2 = params.get("c1", 0.0), params["c2"]
        found.append(objective(path, X, y, c1, c2))
        if kind is Trainer:
            loss = trainer.logparser.last_iteration["loss"]
            # with a little of the squared norm where there is none
            rel = 1e-6 if c2 or not c1 else 1e-3
            assert loss == pytest.approx(found[0], rel=rel)
    assert found[0] <= found[1] * (1 + 1e-3)
    if algorithm == "l2sgd":
        # the peer draws sentences at random and stops before the optimum, which its
        # other algorithm finds
        trained(pycrfsuite.Trainer, tmp_path / "1", X, y, "lbfgs", **params)
    taggers = Tagger(), Tagger()
    for k, tagger in enumerate(taggers):
        tagger.open(tmp_path / str(k))
    infos = [tagger.info() for tagger in taggers]
    # labels in the order in which they come
    assert infos[0].labels == infos[1].labels
    if params["c2"] == 0.0:
        # there may be several optima
        return
    if not params.get("c1"):
        for name in ("attributes", "transitions", "state_features"):
            assert set(getattr(infos[0], name)) == set(getattr(infos[1], name))
    for items in X:
        for tagger in taggers:
            tagger.set(items)
        for t in range(len(items)):
            expected = taggers[1].marginal("O", t)
            assert taggers[0].marginal("O", t) == pytest.approx(expected, abs=0.02)


def test_python_crfsuite_reads_what_is_written(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    X, y = sentences()
    trained(Trainer, tmp_path / "model", X, y, c2=0.1)
    peer, tagger = pycrfsuite.Tagger(), Tagger()
    peer.open(str(tmp_path / "model")), tagger.open(tmp_path / "model")
    assert [peer.tag(items) for items in X] == [tagger.tag(items) for items in X]


@pytest.mark.parametrize("algorithm", [*NAMES, "averaged-perceptron"])
def test_parameters_are_those_of_python_crfsuite(algorithm):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trainer, peer = Trainer(algorithm), pycrfsuite.Trainer(algorithm)
    params = trainer.get_params()
    assert params == peer.get_params()
    assert list(map(type, params.values())) == list(
        map(type, peer.get_params().values())
    )
    for name, value in params.items():
        trainer.set(name, str(int(value)) if isinstance(value, bool) else str(value))
        assert trainer.get(name) == value
        assert trainer.help(name)
    trainer.select("lbfgs")
    assert trainer.get("c2") == 1.0


@pytest.mark.parametrize("algorithm", ["ap", "pa", "arow"])
def test_what_has_no_objective_is_named(algorithm, tmp_path):
    trainer = Trainer(algorithm, verbose=False)
    trainer.append([["a"]], ["x"])
    with pytest.raises(ValueError, match=r"'lbfgs', or sksstruct\.make_tagger\(\)"):
        trainer.train(tmp_path / "model")
    with pytest.raises(ValueError, match="make_tagger"):
        CRF(algorithm).fit([[["a"]]], [["x"]])


def test_mistakes(tmp_path):
    trainer = Trainer(verbose=False)
    for call, message in (
        (
            lambda: trainer.append([["a"]], ["x", "y"]),
            "0: xseq has 1 items, and yseq 2",
        ),
        (lambda: trainer.select("svm"), "algorithm must be one of lbfgs"),
        (lambda: trainer.select("lbfgs", "semi"), "'semi'"),
        (lambda: trainer.set("c3", 1), "has no parameter 'c3': it has feature.minfreq"),
        (lambda: trainer.get("c3"), "no parameter"),
        (lambda: trainer.help("c3"), "no parameter"),
        (lambda: trainer.set("c1", "much"), "c1 must be of type float, got 'much'"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match=r"yseq\[0\] must be a string, got 1"):
        trainer.append([["a"]], [1])
    trainer.append([["a"], ["b"]], ["x", "y"])
    trainer.set("feature.minfreq", 2)
    with pytest.raises(
        ValueError, match=r"feature\.minfreq=2\.0 leaves no weight: .* frequency, 1\.0"
    ):
        trainer.train(tmp_path / "model")
    trainer.clear()
    trainer.set("feature.minfreq", 0)
    with pytest.warns(UserWarning, match="no sentences"):
        trainer.train(tmp_path / "model")


def test_a_single_label(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite")
    trained(Trainer, tmp_path / "model", [[["a"], ["b"]]], [["x", "x"]])
    for tagger in (Tagger(), pycrfsuite.Tagger()):
        with tagger.open(str(tmp_path / "model")):
            assert tagger.tag([["a"], [], ["c"]]) == ["x", "x", "x"]
            assert tagger.probability(["x", "x", "x"]) == 1.0


def test_items_twice_bytes_and_values_add_up(tmp_path):
    X, y = [[["a", "a"], [b"b"]], [{"b": 1.0}, {"a": 2}]], [["x", b"y"], ["y", "x"]]
    same = [[{"a": 2}, {"b": True}], [{"b": 1.0}, {"a": 2.0}]]
    models = []
    for sentences_of, labels in ((X, y), (same, [["x", "y"]] * 2)):
        labels = labels if labels is y else [["x", "y"], ["y", "x"]]
        sequences = [ItemSequence(items) for items in sentences_of]
        trained(Trainer, tmp_path / "model", sequences, labels)
        models.append((tmp_path / "model").read_bytes())
    assert models[0] == models[1]


class Listening(Trainer):
    """As python-crfsuite allows, without calling `__init__`."""

    def __init__(self):
        self.events = []

    def on_iteration(self, log, info):
        self.events.append(info)


def test_messages(tmp_path, capsys):
    X, y = sentences()
    trainer = Listening()
    for k, (items, labels) in enumerate(zip(X, y, strict=True)):
        trainer.append(items, labels, k % 3)
    trainer.train(tmp_path / "model", holdout=2)
    assert "type: CRF1d" in capsys.readouterr().out
    log = trainer.logparser
    assert trainer.events == log.iterations and log.last_log == "\n"
    assert log.last_iteration["num"] == len(log.iterations) > 1
    losses = [info["loss"] for info in log.iterations]
    assert losses[-1] == min(losses)
    tagger, right = Tagger(), []
    tagger.open(tmp_path / "model")
    for items, labels in list(zip(X, y, strict=True))[2::3]:
        right.append(np.equal(tagger.tag(items), labels))
    assert log.last_iteration["item_accuracy_float"] == np.concatenate(right).mean()
    assert log.last_iteration["instance_accuracy_float"] == np.mean(
        [each.all() for each in right]
    )
    trainer.message = lambda text: 1 / 0
    with pytest.raises(ZeroDivisionError):
        trainer.train(tmp_path / "model")


# ---- the estimator ----


def test_an_estimator():
    X, y = sentences()
    crf = CRF(c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
    assert not is_classifier(crf)
    names = "tagger_ classes_ size_ num_attributes_ attributes_ training_log_"
    for name in (*names.split(), "state_features_", "transition_features_"):
        assert getattr(crf, name) is None
    with pytest.raises(NotFittedError):
        check_is_fitted(crf)
    with pytest.raises(ValueError, match="not fitted"):
        crf.predict(X)
    assert crf.fit(X, y) is crf
    check_is_fitted(crf)
    assert set(crf.classes_) == {"O", "B", "I"} and len(crf.transition_features_) == 9
    assert len(crf.attributes_) == crf.num_attributes_ and "w:B1" in crf.attributes_
    assert {name for name, _ in crf.state_features_} == set(crf.attributes_)
    predicted = crf.predict(X)
    assert predicted.shape == (len(X),) and predicted[0] == crf.predict_single(X[0])
    marginals = crf.predict_marginals(X)
    assert marginals[1] == crf.predict_marginals_single(X[1])
    best = [max(row, key=row.get) for row in marginals[1]]
    assert sum(marginals[1][0].values()) == pytest.approx(1.0)
    assert set(best) <= set(crf.classes_)
    flat, true = (np.concatenate([*map(list, each)]) for each in (predicted, y))
    assert crf.score(X, y) == np.mean(flat == true)
    copies = pickle.loads(pickle.dumps(crf)), copy.deepcopy(crf)
    for other in copies:
        assert other.predict(X).tolist() == predicted.tolist()
    other = clone(crf)
    assert other.tagger_ is None and other.get_params() == crf.get_params()


def test_searches():
    X, y = sentences()
    space = {"c1": [0.01, 0.3], "c2": [0.1, 1.0]}
    search = RandomizedSearchCV(CRF(), space, n_iter=3, cv=3, random_state=0, n_jobs=2)
    assert search.fit(X, y).best_estimator_.score(X, y) > 0.8
    assert cross_val_score(CRF("l2sgd"), X, y, cv=3).mean() > 0.7


def test_files_of_models(tmp_path):
    X, y = sentences()
    path = tmp_path / "model.crfsuite"
    crf = CRF(model_filename=path).fit(X, y)
    assert crf.modelfile.name == path and crf.size_ == path.stat().st_size
    other = CRF(model_filename=path)
    assert other.predict(X).tolist() == crf.predict(X).tolist()
    assert pickle.loads(pickle.dumps(crf)).score(X, y) == crf.score(X, y)
    # a file for other programs, as long as the estimator lives
    crf = CRF().fit(X, y)
    name = crf.modelfile.name
    assert name == crf.modelfile.name and os.path.getsize(name) == crf.size_
    del crf
    assert not os.path.exists(name)
    crf = CRF(keep_tempfiles=True).fit(X, y)
    name = crf.modelfile.name
    del crf
    assert os.path.exists(name)
    os.unlink(name)


def test_held_out_sequences_and_lines(capsys):
    X, y = sentences()
    crf = CRF(verbose=True).fit(X[:40], y[:40], X_dev=X[40:], y_dev=y[40:])
    last = crf.training_log_.last_iteration
    assert last["item_accuracy_float"] == crf.score(X[40:], y[40:])
    assert f"num={last['num']} loss={last['loss']:.6g}" in capsys.readouterr().out
    # the others are as without them
    assert crf.predict(X).tolist() == CRF().fit(X[:40], y[:40]).predict(X).tolist()
    for arguments in ((X, y, X), (X, y, None, y)):
        with pytest.raises(ValueError, match="X_dev and y_dev"):
            CRF().fit(*arguments)
    with pytest.raises(ValueError, match="X and y must be of the same sequences"):
        CRF().fit(X, y[:-1])
