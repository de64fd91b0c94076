"""CoNLL-2000 chunking against python-crfsuite: training, tagging, memory."""

import resource
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

from _common import Clock, arguments, median_seconds, pass_against_sweep, table
from _chunking import chunking_data
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.metrics import chunk_f1_score

args = arguments(
    __doc__,
    memory="only fit, and print the growth of the peak memory",
    quick="leave out CRFsuite's slow algorithms",
)
ALPHA = 0.02
features, labels = chunking_data("train", args.data_home)
vectorizer = SequenceVectorizer()
packed = vectorizer.fit_transform(features)

if args.memory:
    del features
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # The peak so far includes the strings, freed by now: ask for the level instead.
    level = int(Path("/proc/self/statm").read_text().split()[1]) * 4
    ChainCRF(ALPHA, random_state=0).fit(packed, labels)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{level / 1024:.0f} {before / 1024:.0f} {after / 1024:.0f}")
    sys.exit()

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

stream = ChainCRF(alpha=ALPHA, random_state=0)
with Clock() as clock:
    classes = sorted({label for row in labels for label in row})
    for start in range(0, len(X), 1000):
        stop = start + 1000
        stream.partial_fit(X[start:stop], labels[start:stop], classes=classes)
f1 = chunk_f1_score(test_labels, stream.predict(X_test))
rows.append(["  partial_fit, once over batches of 1000", f"{clock.seconds:.2f}"])
rows[-1] += [f"{100 * f1:.2f}", "", "", ""]

try:
    import pycrfsuite
except ImportError:
    pycrfsuite = None
    print("python-crfsuite is not installed: no comparison")
peers = {}
if pycrfsuite is not None:
    settings = [("pa", {"max_iterations": 10}, "passive-aggressive, 10 iterations")]
    if not args.quick:
        settings += [
            ("lbfgs", {}, "L-BFGS, default"),
            ("ap", {}, "averaged perceptron, default"),
        ]
    items = [pycrfsuite.ItemSequence(row) for row in features]
    for algorithm, parameters, text in settings:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model")
            trainer = pycrfsuite.Trainer(verbose=False)
            trainer.select(algorithm)
            trainer.set_params(parameters)
            for row, row_labels in zip(items, labels, strict=True):
                trainer.append(row, row_labels)
            with Clock() as clock:
                trainer.train(path)
            tagger = pycrfsuite.Tagger()
            tagger.open(path)
            predicted = [tagger.tag(row) for row in test_features]
            f1 = chunk_f1_score(test_labels, predicted)
            peers[algorithm] = clock.seconds
            rows.append([f"python-crfsuite {text}", f"{clock.seconds:.2f}"])
            rows[-1] += [f"{100 * f1:.2f}", "", "", ""]
            if algorithm == "pa":
                tagging = [
                    [
                        "python-crfsuite, from lists of strings",
                        median_seconds(lambda: [tagger.tag(r) for r in test_features], 3),
                    ]
                ]
table(
    "Training (CSR matrices, or prepared items, in; one thread) and chunk F1 on the "
    "test set (target: 93.5)",
    ["who", "CPU s", "F1", "passes", "primal", "gap"],
    rows,
)
for name, limit in (("pa", 0.6), ("lbfgs", 1 / 20)):
    if name in peers:
        print(f"  ratio to {name}: {ours / peers[name]:.3f} (target {limit:.2f})")

packed_test = vectorizer.transform(test_features)
dicts = [
    [dict(feature.split("=", 1) for feature in row if "=" in feature) for row in sentence]
    for sentence in test_features
]
rows = [
    ["ChainCRF.predict, list of CSR matrices", median_seconds(lambda: model.predict(X_test), 9)],
    ["ChainCRF.predict, PackedSequences", median_seconds(lambda: model.predict(packed_test), 9)],
    [
        "SequenceVectorizer + predict, lists of strings",
        median_seconds(lambda: model.predict(vectorizer.transform(test_features)), 5),
    ],
    [
        "SequenceVectorizer + predict, dicts",
        median_seconds(lambda: model.predict(vectorizer.transform(dicts)), 5),
    ],
]
if peers:
    rows += tagging
    rows.append(
        [
            "python-crfsuite, from dicts",
            median_seconds(lambda: [tagger.tag(row) for row in dicts], 3),
        ]
    )
table(
    "Tagging the test set (target: 2 million tokens/s from CSR; CRFsuite's end to end)",
    ["who", "ms", "tokens/s"],
    [[name, f"{1e3 * s:.1f}", f"{n_test / s:,.0f}"] for name, s in rows],
)

one_pass, sweep = pass_against_sweep(packed, labels, ALPHA, n_passes=12)
table(
    "A plain BCFW pass against a bare sweep of the oracles, one thread (target: 2.5)",
    ["sweep ms", "pass ms", "ratio"],
    [[f"{1e3 * sweep:.1f}", f"{1e3 * one_pass:.1f}", f"{one_pass / sweep:.2f}"]],
)

command = [sys.executable, __file__, "--memory"]
if args.data_home:
    command += ["--data-home", args.data_home]
level, before, after = map(
    int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
)
table(
    "Peak memory of the fit above the packed features, MB (target: 400)",
    ["resident before", "peak before", "peak after", "growth"],
    [[level, before, after, f"{after - level}" if after > before else f"<= {after - level}"]],
)
