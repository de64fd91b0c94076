"""Label sets: MultilabelPairwise beside scikit-learn, each judged by its target.

Data are as they come: only emotions has its columns scaled. All classifiers have
their default parameters. In the rows "as is", a single prediction is judged by all
measures. In the others, labels are chosen for each measure. MultilabelPairwise has a
`target` for it. Peers get thresholds and probabilities from scores of held-out samples:
a threshold for micro F1, one for each label for macro F1, and for the F1 of samples the
sets of largest expected F1. Classifiers with pairs, whose scores are the log-odds of
labels, are compared to those without pairs in the way of the peers.

Each method trains in a process of its own. MB is what its memory grows by.
"""

import csv
import multiprocessing
import resource
import signal
import time
import warnings
from itertools import islice
from pathlib import Path

import _common
import _label_sets
import numpy as np
from scipy import sparse
from scipy.special import expit, logit
from sklearn.base import BaseEstimator, clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, precision_recall_curve
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain
from sklearn.svm import LinearSVC

from sksstruct import MultilabelPairwise
from sksstruct.estimators._held_out import measures
from sksstruct.models.multilabel._expected_f1 import best_f1_sets

MEASURES = (
    "micro-F1", "macro-F1", "sample-F1", "subset", "1 - Hamming", "P@1", "P@3", "P@5",
)  # fmt: skip
# Those whose differences are shown.
GAINS = MEASURES[:4]
# The target that each of the first five is judged with.
TARGETS = "micro", "macro", "f1", "subset", "subset"
# Labels of fewer samples get no threshold of their own.
FEWEST = 5
# Beyond so many labels, only the first methods are compared.
FEW = 400


class Chains(BaseEstimator):
    """The mean of ten chains in random order."""

    def fit(self, X, Y):
        one = LogisticRegression(max_iter=1000)
        self.chains_ = [
            ClassifierChain(one, order="random", random_state=k).fit(X, Y)
            for k in range(10)
        ]
        return self

    def decision_function(self, X):
        mean = np.mean([chain.predict_proba(X) for chain in self.chains_], axis=0)
        return logit(np.clip(mean, 1e-12, 1.0 - 1e-12))


def trained(estimator, X, Y):
    """A function that scores labels, and the number of pairs.

    Peers cannot learn labels without two values.
    """
    always, never = Y.all(axis=0), ~Y.any(axis=0)
    some = ~(always | never)
    fitted = clone(estimator).fit(X, Y[:, some])

    def scores(X):
        known = fitted.decision_function(X)
        found = np.empty((X.shape[0], Y.shape[1]))
        found[:, some] = known
        found[:, always], found[:, never] = known.max(), known.min()
        return found

    return scores, len(getattr(fitted, "label_pairs_", ()))


def best_threshold(y, scores):
    precision, recall, thresholds = precision_recall_curve(y, scores)
    total = np.maximum(precision + recall, 1e-12)[:-1]
    return thresholds[np.argmax(precision[:-1] * recall[:-1] / total)]


def chosen(held_out, Y, scores):
    """For each target, the labels that peers choose; Y are those of `held_out`."""
    common = best_threshold(Y.ravel(), held_out.ravel())
    each = np.full(Y.shape[1], common)
    for j in np.flatnonzero(Y.sum(axis=0) >= FEWEST):
        each[j] = best_threshold(Y[:, j], held_out[:, j])
    platt = LogisticRegression(C=1e6, solver="newton-cholesky")
    platt.fit(held_out.reshape(-1, 1), Y.ravel())
    sets = np.empty(scores.shape, dtype=np.uint8)
    odds = platt.coef_[0, 0] * scores + platt.intercept_[0]
    best_f1_sets(expit(odds), 0, len(sets), sets)
    labels = {"f1": sets, "subset": scores > 0.0}
    labels |= {"micro": scores >= common, "macro": scores >= each}
    if not Y.any(axis=1).all():
        return labels
    # no empty sets where none was observed, as MultilabelPairwise has it
    for name, threshold in (("micro", common), ("macro", each)):
        plain = held_out >= threshold
        full = filled(plain, held_out - threshold)
        plain, full = (f1_score(Y, found, average=name) for found in (plain, full))
        if full > plain:
            labels[name] = filled(labels[name], scores - threshold)
    return labels | {name: filled(labels[name], scores) for name in ("f1", "subset")}


def filled(labels, scores):
    """Labels, and the best one of samples without any."""
    labels = labels.copy()
    empty = np.flatnonzero(~labels.any(axis=1))
    labels[empty, scores[empty].argmax(axis=1)] = 1
    return labels


def peer(estimator, n_folds=5, plain=True):
    """Rows of a classifier of scikit-learn, or of one that is treated like these."""

    def run(X, Y, X_test, budget):
        with _common.Clock() as fit:
            score, pairs = trained(estimator, X, Y)
        with _common.Clock() as predict:
            scores = score(X_test)
        if plain:
            labels = dict.fromkeys(TARGETS, scores > 0.0)
            yield " as is", labels, scores, fit.seconds, predict.seconds, pairs
        if (n_folds + 1) * fit.seconds > budget:
            yield (f"{(n_folds + 1) * fit.seconds:.0f} s",)
            return
        limit_cpu(2 * budget)
        with _common.Clock() as folds:
            held_out = np.empty(Y.shape)
            for train, test in KFold(n_folds, shuffle=True, random_state=0).split(X):
                held_out[test] = trained(estimator, X[train], Y[train])[0](X[test])
            labels = chosen(held_out, Y, scores)
        took = fit.seconds + folds.seconds
        yield "", labels, scores, took, predict.seconds, pairs

    return run


def ours(**parameters):
    """Rows of MultilabelPairwise, which is fitted for each target."""

    def run(X, Y, X_test, budget):
        labels = {}
        for target in ("micro", "macro", "f1", "subset"):
            limit_cpu(budget)
            estimator = MultilabelPairwise(target=target, random_state=0, **parameters)
            with _common.Clock() as fit:
                estimator.fit(X, Y)
            with _common.Clock() as predict:
                labels[target] = estimator.predict(X_test)
            if target == "micro":
                # without a target of each measure, and the pairs that were chosen
                times = fit.seconds, predict.seconds, len(estimator.label_pairs_)
                best, values = estimator.predict_topk(X_test, 5)
                scores = np.full(labels[target].shape, -np.inf)
                np.put_along_axis(scores, best, values, axis=1)
                yield " as is", dict.fromkeys(TARGETS, labels["micro"]), scores, *times
        yield "", labels, scores, *times

    return run


def methods(X, n_labels):
    """Name and rows of each method; the feature of a pair is a tenth of a row."""
    squares = X.multiply(X) if sparse.issparse(X) else X * X
    scaling = 0.1 * (squares.sum() / X.shape[0]) ** 0.5

    def with_pairs(scaling=scaling, seconds=None, **parameters):
        return peer(MultilabelPairwise(
            interaction_scaling=scaling, target="hamming", max_seconds=seconds,
            random_state=0, **parameters,
        ), n_folds=3, plain=False)  # fmt: skip

    structured = {"loss": "structured_hinge", "inference": "lp", "tol": 1e-3}
    logistic = LogisticRegression(max_iter=1000)
    chain = ClassifierChain(logistic, order="random", random_state=0)
    found = {
        "ours": ours(),
        "ours, log": ours(loss="log"),
        "ours, no pairs": ours(interaction_scaling=0.0),
        "LinearSVC": peer(OneVsRestClassifier(LinearSVC(random_state=0))),
        "LogisticRegression": peer(OneVsRestClassifier(logistic)),
        "ClassifierChain": peer(chain, n_folds=3),
        "10 chains": peer(Chains(), n_folds=3),
        "squared hinge alone": with_pairs(0.0),
        "squared hinge, pairs": with_pairs(),
        "log alone": with_pairs(0.0, loss="log"),
        "log, pairs": with_pairs(loss="log"),
        "hinge alone": with_pairs(0.0, loss="hinge"),
        "structured, BCA": with_pairs(solver="bca", seconds=15.0, **structured),
        "structured, GDMM": with_pairs(solver="gdmm", seconds=15.0, **structured),
    }
    # the others take hours
    n_methods = len(found) if n_labels <= FEW else 5
    return dict(islice(found.items(), n_methods))


# Which method shows what pairs do, and the same without pairs.
PAIRS = {
    "squared hinge, pairs": "squared hinge alone", "log, pairs": "log alone",
    "structured, BCA": "hinge alone", "structured, GDMM": "hinge alone",
}  # fmt: skip


def limit_cpu(seconds):
    """End this process where it takes more CPU seconds from now on."""
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(time.process_time() + seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def judged(Y, labels, scores):
    """What each test sample contributes to each measure."""
    each = {t: measures(Y, np.asarray(v).astype(np.int16)) for t, v in labels.items()}
    columns = [each[target][:, k] for k, target in enumerate(("micro", "macro", "f1"))]
    columns += [(Y == labels["subset"]).all(axis=1), each["subset"][:, 3]]
    order = np.argsort(-scores, axis=1)[:, :5]
    right = np.take_along_axis(Y, order, axis=1)
    return np.column_stack([*columns, *(right[:, :k].mean(axis=1) for k in (1, 3, 5))])


def in_a_process(run, data, budget):
    """Rows of a method: their names, contributions, seconds and MB."""

    def work(sender):
        warnings.simplefilter("ignore")
        with open("/proc/self/statm") as file:
            at_first = int(file.read().split()[1]) * resource.getpagesize()
        limit_cpu(budget)
        X, Y, X_test, Y_test = data
        for name, *found in run(X, Y, X_test, budget):
            most = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if found:
                labels, scores, *seconds = found
                found = judged(Y_test, labels, scores), *seconds, most - at_first
            sender.send((name, *found))

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(sender,))
    process.start()
    sender.close()
    try:
        while True:
            yield receiver.recv()
    except EOFError:
        process.join()
    if process.exitcode == -signal.SIGXCPU:
        yield (f"> {budget:.0f} s",)
    elif process.exitcode:
        raise RuntimeError(f"a method failed with exit code {process.exitcode}")


def compare(names, only=None, data_home=None, budget=600.0, folder=None):
    """Print the rows of each set as they come, and what is ahead or behind.

    Parameters
    ----------
    only : list of str
        Methods; None: all.
    budget : float
        CPU seconds of a fit; what takes longer is left out.
    folder : str
        Where the tables of the documentation are, whose rows of these sets are
        replaced.
    """
    for name in names:
        data = _label_sets.load(name, data_home)
        X, Y, _, Y_test = data
        print(f"\n{name}: {X.shape[0]} x {X.shape[1]}, {Y.shape[1]} labels, "
              f"{Y.sum() / len(Y):.2f} of a sample; {len(Y_test)} to test")  # fmt: skip
        header = ["method", *MEASURES, "fit s", "predict s", "pairs", "MB"]
        print(*header, sep=" | ")
        rows, found = [], {}
        for method, run in methods(X, Y.shape[1]).items():
            if only and method not in only:
                continue
            for suffix, *result in in_a_process(run, data, budget):
                if not result:
                    print(f"{method}: left out, {suffix}", flush=True)
                    continue
                values, fit, predict, pairs, memory = result
                found[method + suffix] = values
                errors = values.std(axis=0) / len(values) ** 0.5
                cells = [f"{mean:.3f} ({error:.3f})" for mean, error in
                         zip(values.mean(axis=0), errors, strict=True)]  # fmt: skip
                cells += [
                    f"{fit:.2f}",
                    f"{predict:.2f}",
                    pairs,
                    f"{memory / 2**20:.0f}",
                ]
                rows.append([name, method + suffix, *cells])
                print(*rows[-1][1:], sep=" | ", flush=True)
        changes = [[name, *change] for change in differences(found)]
        for change in changes:
            print(*change[1:], sep=" | ", flush=True)
        if folder:
            # the others are there for what pairs change
            alone = {name for pair in PAIRS.items() for name in pair}
            rows = [row for row in rows if row[1] not in alone]
            replace(folder, "label_sets", ["data", *header], rows, 2)
            heads = ["data", "method", "beside", *GAINS]
            replace(folder, "label_set_gains", heads, changes, 3)


def differences(found):
    """How far methods are ahead of others, with the standard errors of that."""
    peers = ["LinearSVC", "LogisticRegression", "ClassifierChain", "10 chains"]
    peers += [f"{name} as is" for name in peers]
    pairs = [(name, "best peer", peers) for name in ("ours", "ours, log")]
    pairs += [("ours", "ours, no pairs", ["ours, no pairs"])]
    pairs += [(name, alone, [alone]) for name, alone in PAIRS.items()]
    for name, beside, others in pairs:
        others = [found[other] for other in others if other in found]
        if name not in found or not others:
            continue
        cells = []
        for k in range(len(GAINS)):
            best = max((values[:, k] for values in others), key=np.mean)
            change = found[name][:, k] - best
            error = change.std() / len(change) ** 0.5
            cells.append(f"{change.mean():+.3f} ({error:.3f})")
        yield [name, beside, *cells]


def replace(folder, table, header, rows, n_keys):
    """Put rows in the place of those with the same first columns."""
    path, old = Path(folder) / f"{table}.csv", []
    if path.exists():
        with open(path, newline="") as file:
            old = list(csv.reader(file))[1:]
    found = {tuple(row[:n_keys]): row for row in [*old, *rows]}.values()
    rows = sorted(found, key=lambda row: _label_sets.SETS.index(row[0]))
    with open(path, "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header, *rows])
