"""CoNLL-2000 chunking against python-crfsuite: training, tagging, memory."""

import copy
import gc
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from _common import Clock, arguments, median_seconds, pass_against_sweep, table

from _chunking import chunking_data  # isort: skip
from _crfsuite import pycrfsuite, train_crfsuite  # isort: skip
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import chunk_f1_score

import numpy as np  # isort: skip

args = arguments(__doc__, quick="leave out CRFsuite's slow algorithms")
ALPHA = 0.02
# CRFsuite minimizes c2 |w|^2 + sum of the losses, with c2 = 1 by default; no bias, no
# weights of first and last labels, and weights only for what was seen together.
CRF = {
    "loss": "log",
    "fit_intercept": False,
    "boundary": False,
    "all_possible_states": False,
    "all_possible_transitions": False,
}
features, labels = chunking_data("train", args.data_home)
vectorizer = SequenceVectorizer()
packed = vectorizer.fit_transform(features)
# The strings are made again for CRFsuite: millions of objects that lie about make
# Python's garbage collector slow, for us alone.
del features
gc.collect()
test_features, test_labels = chunking_data("test", args.data_home)
X = list(packed)
X_test = list(vectorizer.transform(test_features))
n_tokens = int(packed.offsets[-1])
n_test = sum(len(row) for row in test_labels)
print(f"{len(X)} sentences, {n_tokens} tokens, {packed.n_features} attributes")

warnings.simplefilter("ignore", ConvergenceWarning)
rows = []
for seed in range(5):
    with Clock() as clock:
        model = ChainCRF(alpha=ALPHA, random_state=seed).fit(X, labels)
    f1 = chunk_f1_score(test_labels, model.predict(X_test))
    rows.append(
        [
            f"ChainCRF(alpha={ALPHA}), seed {seed}",
            f"{clock.seconds:.2f}",
            f"{100 * f1:.2f}",
            model.n_iter_,
            f"{model.objective_:.5f}",
            f"{model.dual_gap_:.5f}",
        ]
    )
ours = sorted(float(row[1]) for row in rows)[len(rows) // 2]

c2 = len(X) / 2
likelihoods = {}
for tol in (3e-3, 1e-4):
    with Clock() as clock:
        crf = ChainCRF(alpha=1 / c2, tol=tol, **CRF).fit(X, labels)
    f1 = chunk_f1_score(test_labels, crf.predict(X_test))
    likelihoods[tol] = clock.seconds, crf.objective_ * len(X)
    rows.append(
        [
            f'ChainCRF(loss="log"), c2 = 1, tol = {tol:g}',
            f"{clock.seconds:.2f}",
            f"{100 * f1:.2f}",
            crf.n_iter_,
            f"{crf.objective_:.5f}",
            f"{crf.dual_gap_:.5f}",
        ]
    )

stream = ChainCRF(alpha=ALPHA, random_state=0)
with Clock() as clock:
    classes = sorted({label for row in labels for label in row})
    for start in range(0, len(X), 1000):
        stop = start + 1000
        stream.partial_fit(X[start:stop], labels[start:stop], classes=classes)
f1 = chunk_f1_score(test_labels, stream.predict(X_test))
rows.append(["  partial_fit, once over batches of 1000", f"{clock.seconds:.2f}"])
rows[-1] += [f"{100 * f1:.2f}", "", "", ""]

peers = {}
test_strings = [[[f.replace("=", ":", 1) for f in t] for t in r] for r in test_features]
if pycrfsuite is not None:
    settings = [("pa", {"max_iterations": 10}, "passive-aggressive, 10 iterations")]
    if not args.quick:
        settings += [
            ("lbfgs", {}, "L-BFGS, default"),
            ("ap", {}, "averaged perceptron, default"),
        ]
    # CRFsuite joins names and values of dicts by a colon: strings that agree with that.
    features, _ = chunking_data("train", args.data_home)
    items = [
        pycrfsuite.ItemSequence([[f.replace("=", ":", 1) for f in t] for t in row])
        for row in features
    ]
    for algorithm, parameters, text in settings:
        tagger, seconds, loss = train_crfsuite(items, labels, algorithm, parameters)
        f1 = chunk_f1_score(test_labels, [tagger.tag(row) for row in test_strings])
        peers[algorithm] = seconds
        if algorithm == "lbfgs":
            theirs, crf_tagger = loss, tagger
        rows.append([f"python-crfsuite {text}", f"{seconds:.2f}"])
        rows[-1] += [f"{100 * f1:.2f}", "", "", ""]
table(
    "Training (CSR matrices, or prepared items, in; one thread) and chunk F1 on the "
    "test set (target: 93.5)",
    ["who", "CPU s", "F1", "passes", "primal", "gap"],
    rows,
)
for name, limit in (("pa", 0.6), ("lbfgs", 1 / 20)):
    if name in peers:
        print(f"  ratio to {name}: {ours / peers[name]:.3f} (target {limit:.2f})")

if "lbfgs" in peers:
    for tol, (seconds, loss) in likelihoods.items():
        print(
            f"  likelihood, tol = {tol:g}: c2 |w|^2 + loss {loss:.2f}, CRFsuite's "
            f"{theirs:.2f}; seconds {seconds / peers['lbfgs']:.3f} of CRFsuite's "
            "(target 0.5)"
        )
    # its weights in our model: marginal probabilities of every token of the test set
    info = crf_tagger.info()
    names = [f.replace("=", ":", 1) for f in vectorizer.get_feature_names_out()]
    column = {name: j for j, name in enumerate(names)}
    row_of = {name: k for k, name in enumerate(crf.classes_.tolist())}
    crf.coef_ = np.zeros((len(row_of), len(names)))
    for (name, label), weight in info.state_features.items():
        crf.coef_[row_of[label], column[name]] = weight
    crf.transitions_ = np.zeros((len(row_of), len(row_of)))
    for (before, after), weight in info.transitions.items():
        crf.transitions_[row_of[before], row_of[after]] = weight
    worst = 0.0
    for row, ours_of_row in zip(test_strings, crf.predict_proba(X_test), strict=True):
        crf_tagger.set(row)
        for t, probabilities in enumerate(ours_of_row):
            for label, k in row_of.items():
                worst = max(
                    worst, abs(crf_tagger.marginal(label, t) - probabilities[k])
                )
    print(f"  largest difference of marginals at CRFsuite's weights: {worst:.1e}")

packed_test = vectorizer.transform(test_features)
dicts = [
    [dict(f.split("=", 1) if "=" in f else (f, 1.0) for f in t) for t in row]
    for row in test_features
]
single = copy.deepcopy(model).cast(np.float32)
agreement = np.mean(
    np.concatenate(single.predict(packed_test))
    == np.concatenate(model.predict(packed_test))
)
rows = {
    "predict, list of CSR matrices": median_seconds(lambda: model.predict(X_test), 9),
    "predict, PackedSequences": median_seconds(lambda: model.predict(packed_test), 9),
    "predict, PackedSequences, weights in single precision": median_seconds(
        lambda: single.predict(packed_test), 9
    ),
}
for name, items in (("strings", test_features), ("dicts", dicts)):
    rows[f"SequenceVectorizer + predict, {name}"] = median_seconds(
        lambda items=items: model.predict(vectorizer.transform(items)), 5
    )
if peers:
    for name, items in (("strings", test_strings), ("dicts", dicts)):
        rows[f"python-crfsuite, {name}"] = median_seconds(
            lambda items=items: [tagger.tag(r) for r in items], 3
        )
table(
    "Tagging the test set (target: 4 million tokens/s from CSR)",
    ["who", "ms", "tokens/s"],
    [[name, f"{1e3 * s:.1f}", f"{n_test / s:,.0f}"] for name, s in rows.items()],
)
print(f"  same labels in single precision: {100 * agreement:.3f} % (target 99.99)")
for name, limit in (("strings", 3), ("dicts", 2)) if peers else ():
    ratio = (
        rows[f"python-crfsuite, {name}"] / rows[f"SequenceVectorizer + predict, {name}"]
    )
    print(f"  rate from {name}: {ratio:.2f} of CRFsuite's (target {limit})")

one_pass, sweep = pass_against_sweep(packed, labels, ALPHA, n_passes=12)
table(
    "A plain BCFW pass against a bare sweep of the oracles, one thread (target: 2.5)",
    ["sweep ms", "pass ms", "ratio"],
    [[f"{1e3 * sweep:.1f}", f"{1e3 * one_pass:.1f}", f"{one_pass / sweep:.2f}"]],
)

# Memory: a process that has the features and nothing else, before and after the fit.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "features.npz"
    values = packed.values
    np.savez(
        path,
        data=values.data,
        indices=values.indices,
        indptr=values.indptr,
        offsets=packed.offsets,
        labels=np.concatenate(labels),
    )
    code = f"""
import numpy as np
from scipy.sparse import csr_array
from sksstruct import ChainCRF
from sksstruct.utils.packed import PackedSequences
z = dict(np.load({str(path)!r}))
shape = (len(z["indptr"]) - 1, z["indices"].max() + 1)
X = csr_array((z["data"], z["indices"], z["indptr"]), shape=shape)
X = PackedSequences(X, z["offsets"])
y = np.split(z["labels"], z["offsets"][1:-1])
def peak():  # of this program; getrusage would count the one that started it
    line, = (x for x in open("/proc/self/status") if x.startswith("VmHWM"))
    return int(line.split()[1]) // 1024
before = peak()
ChainCRF({ALPHA}, random_state=0).fit(X, y)
print(before, peak())
"""
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
before, after = map(int, run.stdout.split())
table(
    "Peak memory of a process with the features, MB (target: growth of 400)",
    ["before the fit", "after", "growth"],
    [[before, after, after - before]],
)
