"""MultilabelPairwise beside one-vs-rest of the same loss, and chains.

All but "micro", which has the default alpha, have the same C, chosen for one-vs-rest by
micro-F1 on three folds of the training set. Each measure has its standard error over
the test samples, by the delta method.
"""

import time
import warnings

import _common
import numpy as np
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import LinearSVC

from sksstruct import MultilabelPairwise
from sksstruct.datasets import load_multilabel
from sksstruct.estimators._held_out import measures

MULAN = ("emotions", "scene", "yeast", "medical", "rcv1sub1", "bibtex", "corel5k")
MADE = ("made20", "made200", "made1000")
LOSSES = ("squared_hinge", "hinge", "log")
MEASURES = ("micro-F1", "macro-F1", "sample-F1", "1 - Hamming")


def load(name, data_home=None):
    """Train and test parts; rows of about unit length, or columns of unit variance."""
    if name == "made20":
        X, Y = make_multilabel_classification(2000, n_classes=20, random_state=0)
        X = StandardScaler().fit_transform(X)
        return X[:1500], Y[:1500], X[1500:], Y[1500:]
    if name == "made200":
        return many_labels(3000, 2500, 200, 200)
    if name == "made1000":
        return many_labels()
    train, test = (
        load_multilabel(name, subset, data_home=data_home)
        for subset in ("train", "test")
    )
    X, X_test = train.X, test.X
    if name in ("scene", "bibtex", "corel5k"):
        X, X_test = normalize(X), normalize(X_test)
    if name in ("emotions", "yeast"):
        X, X_test = X.toarray(), X_test.toarray()
        scaler = StandardScaler().fit(X)
        X, X_test = (scaler.transform(Z) / X.shape[1] ** 0.5 for Z in (X, X_test))
    return X, train.y, X_test, test.y


def many_labels(n=16000, n_train=13000, n_labels=1000, n_features=500, seed=0):
    """As large as delicious: words of 50 topics, and labels that come with a topic."""
    rng = np.random.RandomState(seed)
    topics = rng.randint(50, size=(n, 2))
    words = rng.dirichlet(np.full(n_features, 0.05), 50)
    labels = rng.dirichlet(np.full(n_labels, 0.03), 50)
    X = sparse.lil_array((n, n_features))
    Y = np.zeros((n, n_labels), dtype=np.int64)
    for i, pair in enumerate(topics):
        mixed = words[pair].mean(axis=0)
        X[i, np.unique(rng.choice(n_features, 18, p=mixed))] = 1.0
        Y[i, rng.choice(n_labels, 20, p=labels[pair].mean(axis=0))] = 1
    X = normalize(sparse.csr_array(X))
    return X[:n_train], Y[:n_train], X[n_train:], Y[n_train:]


def binary(loss, C):
    """The classifier of one label."""
    if loss == "log":
        return LogisticRegression(C=C, max_iter=1000)
    return LinearSVC(loss=loss, C=C, max_iter=2000, random_state=0)


def best_C(loss, X, Y):
    """C of one-vs-rest, which is MultilabelPairwise without pairs."""
    n = len(Y)
    search = GridSearchCV(
        MultilabelPairwise(
            loss=loss, target="subset", interaction_scaling=0, tol=1e-2, random_state=0
        ),
        {"alpha": [1 / (n * C) for C in (0.1, 1.0, 10.0)]},
        cv=KFold(3, shuffle=True, random_state=0),
        scoring="f1_micro",
    ).fit(X, Y)
    return round(1 / (n * search.best_params_["alpha"]), 1)


def predictions(estimator, X, Y, X_test, both):
    """Labels of the test set, and CPU seconds of training and of prediction."""
    # chains need both values of every label
    some = np.ptp(Y, axis=0) > 0 if both else slice(None)
    started = time.process_time()
    estimator.fit(X, Y[:, some])
    fitted = time.process_time()
    predicted = np.zeros((X_test.shape[0], Y.shape[1]), dtype=np.int64)
    predicted[:, some] = estimator.predict(X_test)
    return predicted, fitted - started, time.process_time() - fitted


def compare(names, losses=LOSSES, data_home=None, chains=True):
    """Print a table for each data set, and where pairs lose to labels alone."""
    n_compared, all_broken = 0, []
    header = ["loss", "method", "fit s", "predict s", "scaling", "pairs", *MEASURES]
    for name in names:
        X, Y, X_test, Y_test = load(name, data_home)
        rows, broken = [], []
        for loss in losses:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                C = 1.0 if name in MADE else best_C(loss, X, Y)
                found = compared(loss, C, X, Y, X_test, Y_test, chains, rows)
            means = [each.mean(axis=0) for each in found[:2]]
            errors = found[0].std(axis=0) / len(Y_test) ** 0.5
            behind = (means[0] - means[1]) / np.maximum(errors, 1e-12)
            broken += [
                f"{loss}: {measure} behind by {many:.2f} standard errors"
                for measure, many in zip(MEASURES, behind, strict=True)
                if many > 1.0
            ]
            n_compared += len(MEASURES)
        _common.table(f"{name}: {Y.shape[1]} labels, n {len(Y)}", header, rows)
        print("\n".join(broken) or "nowhere behind by a standard error", flush=True)
        all_broken += [f"{name}, {each}" for each in broken]
    print(
        f"pairs are behind by more than a standard error in {len(all_broken)} of "
        f"{n_compared} comparisons", *all_broken, sep="\n",
    )  # fmt: skip


def compared(loss, C, X, Y, X_test, Y_test, chains, rows):
    """Add the rows of one loss; return the measures of each method."""
    base = binary(loss, C)
    methods = {
        "one-vs-rest": OneVsRestClassifier(base),
        "pairs": MultilabelPairwise(
            1 / (len(Y) * C), loss=loss, target="subset", random_state=0
        ),
        "micro": MultilabelPairwise(loss=loss, target="micro", random_state=0),
    }
    if chains:
        methods["chain"] = ClassifierChain(base, order="random", random_state=0)
    found = []
    for method, estimator in methods.items():
        predicted, took, used = predictions(estimator, X, Y, X_test, method == "chain")
        found.append(measures(Y_test, predicted))
        means, errors = found[-1].mean(axis=0), found[-1].std(axis=0)
        scaling = n_pairs = "-"
        if method in ("pairs", "micro"):
            scaling = f"{estimator.interaction_scaling_:.2f}"
            n_pairs = len(estimator.label_pairs_)
        rows.append([
            f"{loss} {C}", method, f"{took:.2f}", f"{used:.2f}", scaling, n_pairs,
            *(f"{mean:.4f} ({error:.4f})" for mean, error in
              zip(means, errors / len(Y_test) ** 0.5, strict=True)),
        ])  # fmt: skip
    return found
