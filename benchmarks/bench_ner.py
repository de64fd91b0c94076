"""Named entities against python-crfsuite: chunk F1 and training time, nothing tuned."""

import warnings

from _common import Clock, arguments, table

from _chunking import chunking_data  # isort: skip
from _crfsuite import pycrfsuite, train_crfsuite  # isort: skip
from _entities import SETS, entity_data  # isort: skip
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF, crfsuite_parameters
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import chunk_f1_score

args = arguments(__doc__, quick="leave out CRFsuite's slow algorithms and CoNLL-2000")
warnings.simplefilter("ignore", ConvergenceWarning)

# CRFsuite's L-BFGS as most tutorials call it.
PENALTY = {"c1": 0.1, "c2": 0.1}


def taggers(n):
    """Our taggers for n sequences, with the text that names them."""
    return {
        "ChainCRF()": ChainCRF(random_state=0),
        'ChainCRF(loss="log")': ChainCRF(loss="log", random_state=0),
        "  c1 = c2 = 0.1, as CRFsuite": ChainCRF(
            **crfsuite_parameters(n, **PENALTY), random_state=0
        ),
        "  the same, all weights": ChainCRF(
            alpha=0.3 / n, l1_ratio=1 / 3, loss="log", random_state=0
        ),
        '  c2 = 0.5, solver="sgd"': ChainCRF(
            alpha=1 / n, loss="log", solver="sgd", random_state=0
        ),
        "  c2 = 0.5": ChainCRF(alpha=1 / n, loss="log", random_state=0),
        "  c2 = 1, tol = 1e-3": ChainCRF(
            alpha=2 / n, loss="log", tol=1e-3, random_state=0
        ),
    }


PEERS = [("pa", {"max_iterations": 10}, "PA, 10 iterations")]
if not args.quick:
    PEERS += [
        ("ap", {}, "averaged perceptron"),
        (
            "lbfgs",
            {**PENALTY, "max_iterations": 100},
            "L-BFGS, c1 = c2 = 0.1, 100 iterations",
        ),
    ]


def ours(data):
    """Rows of our taggers."""
    features, labels, test_features, test_labels = data
    vectorizer = SequenceVectorizer()
    X, X_test = vectorizer.fit_transform(features), vectorizer.transform(test_features)
    for name, tagger in taggers(len(X)).items():
        with Clock() as clock:
            tagger.fit(X, labels)
        f1 = chunk_f1_score(test_labels, tagger.predict(X_test))
        gap = tagger.dual_gap_ / tagger.objective_
        yield [
            name,
            f"{clock.seconds:.2f}",
            f"{100 * f1:.2f}",
            tagger.n_iter_,
            f"{tagger.objective_ * len(X):.1f}",
            f"{gap:.1e}",
            f"{(tagger.coef_ != 0).mean():.3f}",
        ]


def peers(data):
    """Rows of CRFsuite's algorithms."""
    features, labels, test_features, test_labels = data
    items = [pycrfsuite.ItemSequence(row) for row in features]
    for algorithm, parameters, name in PEERS:
        tagger, seconds, loss = train_crfsuite(items, labels, algorithm, parameters)
        f1 = chunk_f1_score(test_labels, [tagger.tag(row) for row in test_features])
        row = [f"CRFsuite {name}", f"{seconds:.2f}", f"{100 * f1:.2f}", ""]
        yield [*row, f"{loss:.1f}" if algorithm == "lbfgs" else "", "", ""]


def read(name):
    """Attributes and labels for training and for the test."""
    if name == "CoNLL-2000":
        parts = [chunking_data(part, args.data_home) for part in ("train", "test")]
    else:
        parts = [entity_data(name, part, args.data_home) for part in ("train", "test")]
    return (*parts[0], *parts[1])


for name in SETS if args.quick else (*SETS, "CoNLL-2000"):
    data = read(name)
    n_tokens = sum(map(len, data[1]))
    table(
        f"{name}: {len(data[1])} sentences, {n_tokens} tokens; training (prepared "
        "features in, one thread), and chunk F1 on the test set",
        [
            "who",
            "CPU s",
            "F1",
            "passes",
            "objective",
            "relative gap",
            "weights that are not 0",
        ],
        [*ours(data), *(peers(data) if pycrfsuite is not None else ())],
    )
