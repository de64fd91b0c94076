"""One table that anybody can repeat: jobs of users, beside programs installed by name.

The data come with Python and scikit-learn, or are generated, so no data folder is
needed. Seconds are CPU seconds of one thread, the least of a few runs. Training starts
from prepared features. The ratio is the seconds of sksstruct over those of the peer:
below 1, sksstruct is faster. Where both minimize the same objective, both get as
close to the optimum: liblinear has the loosest tolerance with which it does.

    make benchmarks QUICK=1
"""

import random
import re
import sys
import warnings
from pathlib import Path
from pydoc_data.topics import topics

from _common import Clock, table

sys.path.append(str(Path(__file__).parents[1] / "examples" / "papers"))

import numpy as np
from _entities import entity_features
from _map_families import max_csp
from _provenance import commit, machine, versions
from bench_segments import HiddenMarkov
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from sksstruct import (
    ChainCRF,
    FactorGraph,
    LinearSSVC,
    LPMAPPredictor,
    MultilabelPairwise,
    SegmentCRF,
    SSVMClassifier,
    crfsuite_parameters,
)
from sksstruct.datasets import load_digit_strings, make_segments
from sksstruct.factor_graphs import Potts
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.inference import matching, min_cut
from sksstruct.models import grid_graph

PENALTY = {"c1": 0.0, "c2": 1.0}
# for a search for the best labeling, in wall seconds
LIMIT = 30


def timed(call, *arguments, repeat=3):
    """Least CPU seconds of some calls, and what the last one returns."""
    seconds = []
    for _ in range(repeat):
        with Clock() as clock:
            result = call(*arguments)
        seconds.append(clock.seconds)
    return min(seconds), result


def percent(share):
    return f"{100 * share:.1f}"


# ---- jobs: seconds and quality of sksstruct, then of the peer, imported only then ----


def prose():
    """Paragraphs of Python's manual in two halves: lower-case words, and labels.

    A label says whether the word has a capital, and which mark follows it.
    """
    parts = (part for topic in topics.values() for part in topic.split("\n\n"))
    texts = list(dict.fromkeys(" ".join(part.split()) for part in parts))
    random.Random(0).shuffle(texts)
    X, y = [], []
    for text in texts:
        words = text.split()
        if len(words) >= 8 and text[0].isupper() and text[-1] == ".":
            bare = [re.sub(r"[.,:;]$", "", word) for word in words]
            pairs = zip(words, bare, strict=True)
            y.append(["aA"[w[0].isupper()] + w[len(b) :] for w, b in pairs])
            X.append(entity_features([word.lower() for word in bare]))
    half = len(X) // 2
    return X[:half], y[:half], X[half:], y[half:]


def mark_f1(y, found):
    """F1 of the words that have a capital or a mark."""
    y, found = (np.concatenate(labels).astype(str) for labels in (y, found))
    some = sorted({*y, *found} - {"a"})
    return percent(f1_score(y, found, labels=some, average="micro"))


def crfsuite(X, y, algorithm, options):
    """Seconds of training, and a tagger."""
    import pycrfsuite
    from _crfsuite import train_crfsuite

    items = [pycrfsuite.ItemSequence(row) for row in X]
    runs = [train_crfsuite(items, y, algorithm, options) for _ in range(3)]
    return min(seconds for _, seconds, _ in runs), runs[0][0]


def likelihood(n):
    """CRFsuite's objective for n sequences, and as close to its optimum."""
    parameters = crfsuite_parameters(n, **PENALTY) | {"tol": 1e-5}
    return ChainCRF(**parameters, random_state=0)


def train(tagger, algorithm, options):
    X, y, X_test, y_test = prose()
    vectorizer = SequenceVectorizer()
    rows = vectorizer.fit_transform(X)
    tagger = tagger(len(X))
    seconds, _ = timed(tagger.fit, rows, y)
    yield seconds, mark_f1(y_test, tagger.predict(vectorizer.transform(X_test)))
    seconds, peer = crfsuite(X, y, algorithm, options)
    yield seconds, mark_f1(y_test, [peer.tag(row) for row in X_test])


def tag():
    X, y, X_test, y_test = prose()
    vectorizer = SequenceVectorizer()
    tagger = likelihood(len(X)).fit(vectorizer.fit_transform(X), y)
    seconds, found = timed(lambda: tagger.predict(vectorizer.transform(X_test)))
    yield seconds, mark_f1(y_test, found)
    peer = crfsuite(X, y, "lbfgs", PENALTY)[1]
    seconds, found = timed(lambda: [peer.tag(row) for row in X_test])
    yield seconds, mark_f1(y_test, found)


def years():
    data = load_digit_strings()
    tagger, peer = ChainCRF(random_state=0), LinearSVC(random_state=0)
    seconds, _ = timed(tagger.fit, data.X_train, data.y_train)
    found = np.array(tagger.predict(data.X_test))
    yield seconds, percent(np.mean(found != data.y_test))
    seconds, _ = timed(peer.fit, data.X_train.reshape(-1, 64), data.y_train.ravel())
    found = peer.predict(data.X_test.reshape(-1, 64))
    yield seconds, percent(np.mean(found != data.y_test.ravel()))


def durations():
    data = make_segments(160, noise=1.2, correlation=0.5, random_state=0)
    for model in (SegmentCRF(loss="log", random_state=0), HiddenMarkov()):
        seconds, _ = timed(model.fit, data.X[:80], data.y[:80], repeat=1)
        found = np.concatenate(model.predict(data.X[80:]))
        yield seconds, percent(np.mean(found != np.concatenate(data.y[80:])))


def classes(make, X, y, C, **options):
    """The same objective, to the same distance from the optimum."""
    half, share = len(y) // 2, 1e-3
    X, y, test = X[:half], y[:half], (X[half:], y[half:])
    ours = make(alpha=1 / (half * C), tol=share, random_state=0)
    seconds, _ = timed(ours.fit, X, y)
    yield seconds, percent(ours.score(*test))
    for tol in 10.0 ** -np.arange(-1, 6, 0.5):
        peer = LinearSVC(C=C, tol=tol, max_iter=10**5, random_state=0, **options)
        seconds, _ = timed(peer.fit, X, y)
        if primal(peer, X, y, ours.alpha) <= ours.objective_ - ours.dual_gap_ + share:
            break
    yield seconds, percent(peer.score(*test))


def primal(peer, X, y, alpha):
    """Objective of two classes, or of Crammer and Singer."""
    scores, rows = peer.decision_function(X), np.arange(len(y))
    if scores.ndim == 1:
        scores = np.stack([-scores / 2, scores / 2], axis=1)
    margins = 1.0 + scores - scores[rows, y][:, None]
    margins[rows, y] -= 1.0
    norm = (peer.coef_**2).sum() + (peer.intercept_**2).sum()
    return alpha / 2 * norm + margins.max(axis=1).mean()


def label_sets():
    X, Y = datasets.make_multilabel_classification(
        4000, 50, n_classes=10, n_labels=3, random_state=0
    )
    peer = OneVsRestClassifier(LinearSVC(random_state=0))
    for model in (MultilabelPairwise(random_state=0), peer):
        seconds, _ = timed(model.fit, X[:2000], Y[:2000])
        found = model.predict(X[2000:])
        yield seconds, percent(f1_score(Y[2000:], found, average="micro"))


def cuts():
    image = datasets.load_sample_image("flower.jpg") / 255.0
    # the flower is red
    score = (image[..., 0] - image[..., 1:].mean(axis=2) - 0.25).ravel()
    graph = grid_graph(image)
    edges, weight = graph.edges, 0.05 + 0.2 * graph.edge_features[:, 1]
    unary = np.stack([np.zeros_like(score), score], axis=1)
    pairs = weight[:, None, None] * np.array([[0.0, -1.0], [-1.0, 0.0]])
    seconds, (_, value) = timed(min_cut, unary, edges, pairs)
    yield seconds, f"{value:.1f}"
    import maxflow

    def peer():
        graph = maxflow.GraphFloat(len(score), len(edges))
        nodes = graph.add_nodes(len(score))
        graph.add_edges(edges[:, 0], edges[:, 1], weight, weight)
        graph.add_grid_tedges(nodes, np.maximum(score, 0), np.maximum(-score, 0))
        graph.maxflow()
        return 1 - graph.get_grid_segments(nodes)

    seconds, y = timed(peer)
    differ = y[edges[:, 0]] != y[edges[:, 1]]
    yield seconds, f"{score @ y - weight @ differ:.1f}"


def best_labeling(graph):
    ours = LPMAPPredictor(max_seconds=LIMIT, random_state=0).fit()
    seconds, _ = timed(ours.predict, [graph], repeat=1)
    proof = "" if ours.status_[0] == "optimal" else ", no proof"
    yield seconds, f"{ours.scores_[0]:.1f}{proof}"
    from _map_peers import toulbar2

    seconds, (score, _, is_proved) = timed(toulbar2, graph, LIMIT, repeat=1)
    yield seconds, f"{score:.1f}{'' if is_proved else ', no proof'}"


def potts_grid():
    edges = grid_graph(np.zeros((40, 40))).edges
    unaries = np.random.RandomState(0).normal(size=(1600, 4))
    return FactorGraph(unaries, edges, Potts(4, 1.0))


def assignment():
    images = datasets.load_digits().data / 16.0
    scores = -cdist(images[:800], images[800:1600])
    seconds, found = timed(matching, scores)
    yield seconds, f"{found.score:.1f}"
    seconds, pairs = timed(linear_sum_assignment, scores, True)
    yield seconds, f"{scores[pairs].sum():.1f}"


def jobs():
    """Name, quality, peer, and what runs."""
    two = datasets.make_classification(40_000, 100, n_informative=20, random_state=0)
    X, y = datasets.load_digits(return_X_y=True)
    crf, sklearn, search = "python-crfsuite", "scikit-learn", "pytoulbar2"
    run = train(lambda n: ChainCRF(random_state=0), "pa", {})
    yield "train tagger, hinge", "F1, %", crf, run
    run = train(likelihood, "lbfgs", PENALTY)
    yield "train tagger, likelihood", "F1, %", crf, run
    yield "tag dicts, likelihood", "F1, %", crf, tag()
    yield "train on handwriting", "errors, %", sklearn, years()
    yield "train on time series", "errors, %", "hmmlearn", durations()
    run = classes(LinearSSVC, *two, 0.01, loss="hinge")
    yield "train on two classes", "accuracy, %", sklearn, run
    run = classes(SSVMClassifier, X / 16.0, y, 0.1, multi_class="crammer_singer")
    yield "train on ten digits", "accuracy, %", sklearn, run
    yield "train on sets of labels", "micro F1, %", sklearn, label_sets()
    yield "cut a photograph", "score", "PyMaxflow", cuts()
    yield "solve a Max-CSP", "score", search, best_labeling(max_csp())
    yield "label a grid", "score", search, best_labeling(potts_grid())
    yield "assign digits", "score", "scipy", assignment()


def row(name, quality, peer, run):
    """A row of the table."""
    print(f"{name} ...", flush=True)
    seconds, ours = next(run)
    cells = [name, f"{seconds:.3f}", "", "", quality, ours, ""]
    try:
        others, cells[6] = next(run)
    except ModuleNotFoundError:
        return [*cells, f"{peer}: not installed"]
    cells[2:4] = f"{others:.3f}", f"{seconds / others:.3g}"
    return [*cells, peer]


if __name__ == "__main__":
    warnings.simplefilter("ignore", ConvergenceWarning)
    with Clock() as clock:
        rows = [row(*job) for job in jobs()]
    names = "python-crfsuite", "hmmlearn", "PyMaxflow", "pytoulbar2"
    programs = ", ".join(map(" ".join, versions(*names).items()))
    title = f"{machine()}\n{programs}\ncommit {commit() or 'unknown'}"
    header = "job", "CPU s", "peer's", "ratio", "quality", "ours", "peer's", "peer"
    table(f"{title}; {clock.seconds:.0f} CPU seconds in all", header, rows)
