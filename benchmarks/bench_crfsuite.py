"""The likelihood of parts of CoNLL-2000 against python-crfsuite's L-BFGS."""

import gc
import warnings

from _common import Clock, arguments, table

from _chunking import chunking_data  # isort: skip
from _crfsuite import pycrfsuite, train_crfsuite  # isort: skip
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer

args = arguments(__doc__, quick="leave out more than 600 sentences")
warnings.simplefilter("ignore", ConvergenceWarning)
# CRFsuite's model: see bench_conll.py
CRF = {
    "loss": "log",
    "fit_intercept": False,
    "boundary": False,
    "all_possible_states": False,
    "all_possible_transitions": False,
}
SIZES = (10, 100, 500, 600) if args.quick else (10, 100, 500, 2000, 8936)


def ours(X, labels, c2, solver):
    """Seconds, and the objective as CRFsuite states it."""
    tagger = ChainCRF(2 * c2 / len(labels), solver=solver, random_state=0, **CRF)
    with Clock() as clock:
        tagger.fit(X, labels)
    return clock.seconds, tagger.objective_ * len(labels)


def theirs(features, labels, c2):
    """The same of CRFsuite; None without it."""
    if pycrfsuite is None:
        return None
    # CRFsuite joins names and values by a colon
    items = [
        pycrfsuite.ItemSequence([[f.replace("=", ":", 1) for f in t] for t in row])
        for row in features
    ]
    gc.collect()
    _, *result = train_crfsuite(items, labels, "lbfgs", {"c1": 0.0, "c2": c2})
    return result


rows = []
for n in SIZES:
    features, labels = (part[:n] for part in chunking_data("train", args.data_home))
    X = SequenceVectorizer().fit_transform(features)
    if not rows:
        # what is loaded at the first fit of a process does not count
        ours(X, labels, 1.0, "auto")
    for c2 in (1.0, 0.03):
        peer = theirs(features, labels, c2)
        row = [n, c2]
        for solver in ("auto", "lbfgs"):
            seconds, value = ours(X, labels, c2, solver)
            row += [f"{seconds:.3f}", f"{value:.2f}"]
            row.append(f"{seconds / peer[0]:.2f}" if peer else "")
        row += [f"{peer[0]:.3f}", f"{peer[1]:.2f}"] if peer else ["", ""]
        rows.append(row)
table(
    "Prepared features in, one thread; default tolerances of both",
    [
        "sentences",
        "c2",
        "auto, s",
        "objective",
        "ratio",
        "lbfgs, s",
        "objective",
        "ratio",
        "CRFsuite, s",
        "objective",
    ],
    rows,
)
