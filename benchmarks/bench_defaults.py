"""Regret of the defaults: what tuning `alpha` would bring, on many kinds of data.

Each estimator is trained with its default and with 1/16, 1/4, 4 and 16 times the alpha
that the default stood for. "regret" is the best score of the five minus that of the
default, in points, on the held-back part. As the best is picked where it is judged, a
part of it is noise: for "fair" it is picked on one half of the held-back part and
judged on the other, and the mean of both ways is printed, which may be negative.

The peer is what a user would take: CRFsuite's L-BFGS, or classes one against the rest,
by liblinear's hinge or by scikit-learn's logistic regression. "tuned" is its best score
of some penalties. Seconds are CPU seconds of training from prepared features, and the
ratio is that of the defaults.

Sets of the data folder are left out if they are missing. QUICK=1 takes few examples of
each set. A fit is stopped after some wall seconds: other work on the machine changes
what it finds by then, unless ``--seconds`` is larger.

    QUICK=1 python benchmarks/bench_defaults.py [--sets BTC digits] [--no-peers]
"""

import argparse
import os
import warnings
from itertools import pairwise

from _common import Clock, live_table, table

from _crfsuite import pycrfsuite, train_crfsuite  # isort: skip
from _default_sets import SETS, Reader  # isort: skip
import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from sksstruct import (
    ChainCRF,
    LinearSSVC,
    MultilabelPairwise,
    SegmentCRF,
    SSVMClassifier,
)
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import chunk_f1_score, token_accuracy_score
from sksstruct.models import DependencyModel, GraphModel, RelaxedGraphModel

FACTORS = (1 / 16, 1 / 4, 4, 16)
# penalties of the tuned peers: c2, and 1 / C
PENALTIES = (0.01, 0.1, 1.0)
# names of columns, as wide as what is in them
SET, METHOD = "set".ljust(16), "estimator".ljust(17)
CRFSUITE = {"c1": 0.1, "c2": 0.1, "max_iterations": 100}


def estimators(kind, name, classes):
    """The estimators of a kind of data, by name."""
    losses = "hinge", "log"
    if kind in ("entities", "tags", "series"):
        out = {f"chain {loss}": ChainCRF(loss=loss) for loss in losses}
        if name in ("gestures", "durations", "NCBI disease"):
            out |= {f"segments {loss}": SegmentCRF(loss=loss) for loss in losses}
        return out
    if kind == "classes":
        two = {"two classes hinge": LinearSSVC()} if classes == 2 else {}
        return two | {f"classes {loss}": SSVMClassifier(loss=loss) for loss in losses}
    if kind == "sets":
        return {f"sets {loss}": MultilabelPairwise(loss=loss) for loss in losses}
    if kind == "cuts":
        return {"cuts hinge": SSVMClassifier(GraphModel("potts"))}
    if kind == "cycles":
        return {"cycles hinge": SSVMClassifier(RelaxedGraphModel())}
    return {f"trees {loss}": SSVMClassifier(DependencyModel(), loss=loss)
            for loss in losses}  # fmt: skip


def score(kind, y, found):
    """Quality of predictions, in points."""
    if kind == "entities":
        return 100 * chunk_f1_score(y, [list(labels) for labels in found])
    if kind == "sets":
        return 100 * f1_score(y, found, average="micro", zero_division=0)
    if kind in ("cuts", "cycles"):
        y, found = ([np.ravel(each) for each in labels] for labels in (y, found))
    if kind == "classes":
        return 100 * np.mean(y == found)
    return 100 * token_accuracy_score(list(y), list(found))


def judged(kind, y, found):
    """Score on all held-back examples, and on each half of them."""
    n = y.shape[0] if hasattr(y, "shape") else len(y)
    out = [score(kind, y, found)]
    for half in (slice(0, n, 2), slice(1, n, 2)):
        out.append(score(kind, y[half], found[half]))
    return out


def fair(scores):
    """Gain over the first row where the best is picked on the other half."""
    gains = [b[np.argmax(a)] - b[0] for a, b in (scores.T[1:], scores.T[:0:-1])]
    return np.mean(gains)


def runs(estimator, kind, data, seconds):
    """Scores, seconds and passes with the default and with the other alphas."""
    X, y, X_test, y_test = data
    options = {"random_state": 0, "max_seconds": seconds}
    scores, times, default = [], [], None
    for factor in (1, *FACTORS):
        tried = clone(estimator).set_params(**options)
        if factor != 1:
            tried.set_params(alpha=factor * default.alpha_)
            if isinstance(tried, ChainCRF):
                # with an alpha of the user, it would be one
                tried.set_params(intercept_scaling=default.intercept_scaling_)
        with Clock() as clock:
            tried.fit(X, y)
        default = default or tried
        times.append(clock.seconds)
        scores.append(judged(kind, y_test, tried.predict(X_test)))
    return default, np.array(scores), times


# ---- peers: seconds and score as they are, and the best score of some penalties ----


def crfsuite(data, y_test):
    X, y, X_test, _ = data
    items = [pycrfsuite.ItemSequence(row) for row in X]
    tests = [pycrfsuite.ItemSequence(row) for row in X_test]
    y = [list(map(str, labels)) for labels in y]
    tuned = [CRFSUITE | {"c1": 0.0, "c2": penalty} for penalty in PENALTIES]
    for options in (CRFSUITE, *tuned):
        tagger, seconds, _ = train_crfsuite(items, y, "lbfgs", options)
        yield seconds, [tagger.tag(row) for row in tests]


def one_vs_rest(X, y, X_test, loss):
    make = LinearSVC if loss == "hinge" else LogisticRegression
    for options in ({}, *({"C": 1 / penalty} for penalty in PENALTIES)):
        peer = OneVsRestClassifier(make(max_iter=1000, **options))
        with Clock() as clock:
            peer.fit(X, y)
        yield clock.seconds, peer.predict(X_test)


def peer_runs(kind, raw, data, loss):
    """Seconds and predictions of a peer: as it is, and with some penalties."""
    X, y, X_test, y_test = data
    if kind in ("entities", "tags"):
        return crfsuite(raw, y_test) if pycrfsuite is not None else ()
    if kind == "trees":
        return ()
    if kind in ("classes", "sets"):
        return one_vs_rest(X, y, X_test, loss)
    if kind in ("cuts", "cycles"):
        X, X_test = ([graph.node_features for graph in part] for part in (X, X_test))
    sizes = np.cumsum([0, *(x.shape[0] for x in X_test)])
    stack = sparse.vstack if sparse.issparse(X[0]) else np.concatenate
    X, X_test = (stack(list(part)) for part in (X, X_test))
    y = np.concatenate([np.ravel(labels) for labels in y])
    flat = one_vs_rest(X, y, X_test, loss)
    return (
        (seconds, [found[a:b] for a, b in pairwise(sizes)]) for seconds, found in flat
    )


def peer_columns(kind, raw, data, loss, kept):
    """Score as it is and tuned, and seconds as it is."""
    key = "crfsuite" if kind in ("entities", "tags") else loss
    if key not in kept:
        found = list(peer_runs(kind, raw, data, loss))
        kept[key] = [(s, score(kind, data[3], labels)) for s, labels in found]
    if not kept[key]:
        return None
    return kept[key][0][1], max(points for _, points in kept[key]), kept[key][0][0]


# ---- the table ----


def rows(reader, given):
    """A row for each set and estimator."""
    for name in given.sets:
        kind, _ = SETS[name]
        try:
            raw = reader.load(name)
        except OSError as error:
            print(f"{name}: left out, {error}")
            continue
        data, kept = raw, {}
        if kind in ("entities", "tags"):
            vectorizer = SequenceVectorizer()
            data = [vectorizer.fit_transform(raw[0]), raw[1],
                    vectorizer.transform(raw[2]), raw[3]]  # fmt: skip
        classes = len(np.unique(raw[1])) if kind == "classes" else 0
        for method, estimator in estimators(kind, name, classes).items():
            default, scores, times = runs(estimator, kind, data, given.seconds)
            all_of = scores[:, 0]
            peer = None
            if given.peers:
                peer = peer_columns(kind, raw, data, method.split()[-1], kept)
            order = [1, 2, 0, 3, 4]
            yield {
                SET: name,
                METHOD: method,
                "n": raw[0].shape[0] if hasattr(raw[0], "shape") else len(raw[0]),
                "alpha": f"{default.alpha_:.2g}",
                "default": f"{all_of[0]:.2f}",
                "of /16 /4 1 4 16": " ".join(f"{all_of[k]:.1f}" for k in order),
                "regret": f"{all_of.max() - all_of[0]:.2f}",
                "fair": f"{fair(scores):.2f}",
                "CPU s": f"{times[0]:.2f}",
                "s of /16 to 16": " ".join(f"{times[k]:.2g}" for k in order),
                "peer": f"{peer[0]:.2f}" if peer else "",
                "tuned": f"{peer[1]:.2f}" if peer else "",
                "peer's s": f"{peer[2]:.2f}" if peer else "",
                "ratio": f"{times[0] / max(peer[2], 1e-3):.2g}" if peer else "",
            }


def summary(found):
    """Worst and mean of the regrets: by estimator, by loss, and of all."""
    groups = {}
    for row in found:
        method = row[METHOD]
        for group in (method, f"all {method.split()[-1]}", "all"):
            groups.setdefault(group, []).append(row)
    out = []
    for group, members in sorted(groups.items()):
        regrets = np.array([[float(row[k]) for k in ("regret", "fair")]
                            for row in members])  # fmt: skip
        behind = [float(row["tuned"]) - float(row["default"]) for row in members
                  if row["tuned"]]  # fmt: skip
        worst = members[int(regrets[:, 0].argmax())][SET]
        out.append([
            group, len(members), f"{regrets[:, 0].max():.2f}", worst,
            f"{regrets[:, 0].mean():.2f}", f"{regrets[:, 1].max():.2f}",
            f"{regrets[:, 1].mean():.2f}",
            f"{max(behind):.2f}" if behind else "",
            f"{sum(float(row['CPU s']) for row in members):.1f}",
        ])  # fmt: skip
    return out


def main():
    quick = bool(os.environ.get("QUICK"))
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--no-peers", dest="peers", action="store_false")
    parser.add_argument("--limit", type=int, default=120 if quick else 600,
                        help="examples of a set, to train on")  # fmt: skip
    parser.add_argument("--seconds", type=float, default=2.0 if quick else 8.0,
                        help="of a fit, at most, by the wall")  # fmt: skip
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with Clock() as clock:
        found = live_table(
            f"Defaults and other alphas, at most {given.limit} examples and "
            f"{given.seconds:g} s of a fit",
            rows(Reader(given.data_home, given.limit), given),
        )
    header = ["of", "rows", "worst regret", "on", "mean", "worst fair", "mean fair",
              "most behind tuned peer", "CPU s of defaults"]  # fmt: skip
    table(f"Regret, in points; {clock.seconds:.0f} CPU s in all", header,
          summary(found))  # fmt: skip


if __name__ == "__main__":
    main()
