"""sksstruct.crfsuite beside python-crfsuite: start, opening, single calls, batches.

Give model files of CRFsuite, such as those that packages install, or folders that are
searched for them; without any, one is trained on made-up words. Sentences are made of
the attributes of a model, a fifth of them unknown: short ones of up to 6 items with 5
attributes, long ones of up to 25 with 20. All taggers are called in turns, and the
least time of several rounds counts.
"""

import math
import random
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

from _common import table

from _crfsuite import pycrfsuite  # isort: skip
from sksstruct import Tagger as Pipeline
from sksstruct.crfsuite import Tagger, Trainer

ROUNDS, N_SENTENCES = 15, 100
SIZES = {"short": (6, 5), "long": (25, 20)}
START = """
import sys, time
start = time.process_time()
{imports}
imported = time.process_time()
tagger = crfsuite.Tagger()
tagger.open({path!r})
tagger.tag([{{"a": "b"}}])
print(imported - start, time.process_time() - start)
try:
    # not that of `getrusage`, which begins with the parent's
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    print(float(lines["VmHWM"].split()[0]) / 1024)
except OSError:
    print("nan")
print(*({{"numpy", "scipy", "sklearn"}} & set(sys.modules)))
"""


def models(paths):
    """Model files among paths and below folders."""
    for path in map(Path, paths):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and file.open("rb").read(4) == b"lCRF":
                yield file


def made_up(path):
    """Train a model of words that say something of their labels."""
    rng, trainer = random.Random(0), Trainer(verbose=False)
    for _ in range(2000):
        labels = [rng.randrange(12) for _ in range(rng.randint(4, 20))]
        items = [
            {"w": f"{label}:{rng.randrange(3000)}", "even": label % 2 == 0}
            for label in labels
        ]
        trainer.append(items, list(map(str, labels)))
    trainer.train(path)


def sentences(path, n_items, n_attributes):
    """Dicts with attributes of a model, joined or not, and unknown ones."""
    tagger, rng = Tagger(), random.Random(0)
    tagger.open(path)
    names = rng.choices(list(tagger.info().attributes), k=2000)
    found = []
    for _ in range(N_SENTENCES):
        found.append([])
        for _ in range(rng.randint((n_items + 1) // 2, n_items)):
            item = {}
            for name in rng.choices(names, k=n_attributes):
                head, colon, tail = name.partition(":")
                if rng.random() < 0.2:
                    item[f"new{rng.randrange(9999)}"] = f"x{rng.randrange(99999)}"
                elif colon:
                    item[head] = tail
                else:
                    item[name] = 1.0
            found[-1].append(item)
    return found


def least(calls):
    """Least CPU seconds of several functions, called in turns."""
    best = [math.inf] * len(calls)
    for _ in range(ROUNDS):
        for k, call in enumerate(calls):
            start = time.process_time()
            call()
            best[k] = min(best[k], time.process_time() - start)
    return best


def each_label(tagger, X):
    """Marginals, which python-crfsuite gives one by one."""
    for items in X:
        tagger.set(items)
        labels = tagger.labels()
        for t in range(len(items)):
            for label in labels:
                tagger.marginal(label, t)


def batch(tagger, X):
    for items in X:
        tagger.tag(items)


def all_marginals(tagger, X):
    for items in X:
        tagger.set(items)
        tagger.marginals()


def compare(path):
    """Rows of calls, in microseconds a sentence, and of opening."""
    ours, theirs = Tagger(), pycrfsuite.Tagger()
    ours.open(path), theirs.open(str(path))
    pipeline = Pipeline.from_crfsuite(path)
    # that it knows few names, of models with a separator of their own
    warnings.simplefilter("ignore", UserWarning)
    for name, size in SIZES.items():
        X = sentences(path, *size)
        if [ours.tag(items) for items in X] != [theirs.tag(items) for items in X]:
            raise SystemExit(f"{path}: other labels")
        seconds = least(
            [
                lambda X=X: batch(theirs, X),
                lambda X=X: batch(ours, X),
                lambda X=X: pipeline.predict(X),
                lambda X=X: each_label(theirs, X),
                lambda X=X: all_marginals(ours, X),
            ]
        )
        yield [path.name, len(ours.labels()), name, *(s / N_SENTENCES for s in seconds)]


def opening(path):
    """Milliseconds of opening a file."""
    return [
        1e3 * s
        for s in least(
            [
                lambda: pycrfsuite.Tagger().open(str(path)),
                lambda: Tagger().open(path),
                lambda: Pipeline.from_crfsuite(path),
            ]
        )
    ]


def start(imports, path):
    """CPU seconds of the import, and with a first call; MB; what came with it."""
    code = START.format(imports=imports, path=str(path))
    runs = []
    for _ in range(5):
        command = [sys.executable, "-c", code]
        root = Path(__file__).parents[1]
        out = subprocess.run(command, check=True, capture_output=True, cwd=root)
        times, memory, with_it = out.stdout.decode().split("\n")[:3]
        runs.append([*map(float, times.split()), float(memory), with_it])
    return min(runs)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main(paths):
    if pycrfsuite is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        if not paths:
            paths = [Path(folder) / "made_up.crfsuite"]
            made_up(paths[0])
        report(list(models(paths)))


def report(files):
    """Print the tables."""
    rows = [row for path in files for row in compare(path)]
    cells = [
        [*row[:3], *(f"{1e6 * s:.1f}" for s in row[3:]), f"{row[4] / row[3]:.2f}",
         f"{row[7] / row[6]:.2f}"]
        for row in rows
    ]  # fmt: skip
    header = (
        "model", "labels", "items", "tag, theirs", "ours", "Pipeline, 100 at once",
        "marginals, theirs", "ours", "tag, ratio", "marginals, ratio",
    )  # fmt: skip
    table("CPU microseconds a sentence", header, cells)
    for name, (a, b) in {"tag": (4, 3), "marginals": (7, 6)}.items():
        ratios = [row[a] / row[b] for row in rows]
        mean, worst = geometric_mean(ratios), max(ratios)
        print(f"  {name}: geometric mean of the ratios {mean:.2f}, largest {worst:.2f}")
    cells = []
    for path in files:
        times = opening(path)
        size = path.stat().st_size / 1e6
        cells.append([path.name, f"{size:.2f}", *(f"{t:.3f}" for t in times)])
    header = "model", "MB", "python-crfsuite", "sksstruct.crfsuite", "from_crfsuite"
    table("Opening a file, CPU milliseconds", header, cells)
    starts = {
        "python-crfsuite": "import pycrfsuite as crfsuite",
        "sksstruct.crfsuite": "import sksstruct.crfsuite as crfsuite",
        "numpy and sksstruct.crfsuite": "import numpy, sksstruct.crfsuite as crfsuite",
        "sksstruct.ChainCRF and it": (
            "from sksstruct import ChainCRF\nimport sksstruct.crfsuite as crfsuite"
        ),
    }
    cells = []
    for name, imports in starts.items():
        imported, tagged, memory, with_it = start(imports, files[0])
        seconds = f"{imported:.3f}", f"{tagged:.3f}"
        cells.append([name, *seconds, f"{memory:.0f}", with_it])
    header = "import", "CPU s", "with open and tag", "MB", "imports"
    table("Start of a process", header, cells)


if __name__ == "__main__":
    main(sys.argv[1:])
