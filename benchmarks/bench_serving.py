"""A tagger in use: one sentence from words, threads, requests, and smaller models."""

import json
import pickle
import random
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

from _common import Clock, arguments, table

from _crfsuite import pycrfsuite, train_crfsuite  # isort: skip
from _entities import entity_features  # isort: skip
import joblib
import numpy as np
import psutil

from sksstruct import ChainCRF, Tagger
from sksstruct.datasets import read_conll
from sksstruct.feature_extraction import (
    ColumnFeatures,
    SequenceVectorizer,
    affix_features,
    shape_features,
    window_features,
)
from sksstruct.metrics import chunk_f1_score

args = arguments(__doc__, small="only the tables of smaller models")
SERVICE = Path(__file__).parents[1] / "doc" / "how_to" / "deploy" / "service.py"


def data(part):
    """Words and labels of the Broad Twitter Corpus."""
    path = Path(args.data_home or ".") / "ner" / f"btc_{part}.txt.gz"
    sentences = read_conll(path, empty="_")
    return [s[0] for s in sentences], [s[-1] for s in sentences]


def trained(loss="hinge"):
    """A tagger of words."""
    steps = [("columns", ColumnFeatures()), ("features", SequenceVectorizer())]
    crf = ChainCRF(loss=loss, random_state=0)
    return Tagger([*steps, ("tagger", crf)]).fit(*train)


def usual(words):
    """The attributes of `ColumnFeatures` by the functions for users of any tagger."""
    shapes = [row[0].partition("=")[2] for row in shape_features(words)]
    columns = {"w": [word.lower() for word in words], "shape": shapes}
    templates = [[(name, d)] for name in columns for d in range(-2, 3)]
    rows = window_features(columns, templates)
    for row, affixes in zip(rows, affix_features(words, lengths=(2, 3)), strict=True):
        row += affixes
    return rows


def one_sentence(tagger):
    """Microseconds of a sentence of 15 to 30 words, in random turns."""
    words = [row for row in test[0] if 15 <= len(row) <= 30][:300]
    calls = {"sksstruct, ColumnFeatures": lambda row: tagger.predict([row])}
    options = {"c1": 0.0, "c2": 1.0, "max_iterations": 5}
    for name, features in (("the same attributes", usual), ("dicts", entity_features)):
        if pycrfsuite is not None:
            items = [features(row) for row in train[0]]
            peer = train_crfsuite(items, train[1], "lbfgs", options)[0]
            calls[f"python-crfsuite, {name}"] = lambda row, peer=peer, f=features: (
                peer.tag(f(row))
            )
    least = {name: np.full(len(words), np.inf) for name in calls}
    order = random.Random(0)
    for _ in range(7):
        for k, row in enumerate(words):
            for name in order.sample(sorted(calls), len(calls)):
                # another sentence is what the caches have
                calls[name](words[k - 7])
                start = time.process_time()
                calls[name](row)
                spent = time.process_time() - start
                least[name][k] = min(least[name][k], spent)
    first = np.median(least["sksstruct, ColumnFeatures"])
    rows = [
        [name, f"{1e6 * np.median(x):.0f}", f"{first / np.median(x):.2f}"]
        for name, x in least.items()
    ]
    table("One sentence, from words", ("tagger", "CPU us", "ratio"), rows)


def threads(tagger):
    """Batches in threads that share a tagger, and how far the lock is free.

    Another thread counts: while the lock is held it has no processor. On a machine with
    free cores it would have as much time as the prediction.
    """
    X = tagger[:-1].transform(train[0])
    batches = [X[k : k + 500] for k in range(0, len(X), 500)] * 4
    rows = []
    for name in ("predict", "predict_proba"):
        method = getattr(tagger[-1], name)
        for n in (1, 2, 8):
            with ThreadPoolExecutor(n) as pool, Clock() as clock:
                start = time.perf_counter()
                list(pool.map(method, batches))
                wall = time.perf_counter() - start
            rows.append([name, n, f"{wall:.2f}", f"{clock.seconds:.2f}", ""])
        rows[-1][-1] = f"{_free(lambda m=method: m(X)):.2f}"
    header = "method", "threads", "wall s", "CPU s", "share of another thread"
    table("Batches of 500 sentences in threads", header, rows)


def _free(call):
    """CPU time of a thread that counts while a call runs, over that of the call."""
    own, done = [], threading.Event()

    def run():
        start = time.thread_time()
        for _ in range(5):
            call()
        own.append(time.thread_time() - start)
        done.set()

    thread = threading.Thread(target=run)
    start = time.thread_time()
    thread.start()
    while not done.is_set():
        pass
    return (time.thread_time() - start) / own[0]


def requests(tagger):
    """Requests of one sentence to the service of the documentation."""
    words = [row for row in test[0] if 15 <= len(row) <= 30][:300]
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "tagger.json")
        tagger.to_json(model)
        command = [sys.executable, str(SERVICE), model]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            port = int(server.stdout.readline().split()[1])
            rows = []
            for n_clients, size in ((1, 1), (8, 1), (8, 50)):
                cpu, wall = _load(server.pid, port, n_clients, size, words)
                rows.append([n_clients, size, f"{cpu:.0f}", f"{wall:.0f}"])
            server.kill()
    header = "clients", "sentences", "CPU us of the server", "wall us"
    table("A sentence by HTTP", header, rows)


def _load(pid, port, n_clients, size, words):
    """Microseconds of a sentence, of the server's processor and in all."""

    def client(number):
        connection = HTTPConnection("127.0.0.1", port)
        for k in range(100):
            some = [words[(k + number + j) % len(words)] for j in range(size)]
            connection.request("POST", "/", json.dumps(some))
            assert len(json.loads(connection.getresponse().read())) == size
        connection.close()

    process, start = psutil.Process(pid), time.perf_counter()
    before = sum(process.cpu_times()[:2])
    with ThreadPoolExecutor(n_clients) as pool:
        list(pool.map(client, range(2 * n_clients)))
    n = 200 * n_clients * size
    cpu = sum(process.cpu_times()[:2]) - before
    return 1e6 * cpu / n, 1e6 * (time.perf_counter() - start) / n


def smaller(loss):
    """Models without small weights."""
    whole, rows = pickle.dumps(trained(loss)), []
    words = [row for row in test[0] if 15 <= len(row) <= 30][:300]
    thresholds = (0.001, 0.003) if loss == "hinge" else (0.003, 0.03, 0.1)
    methods = ("prune", 0.0), *(("prune", x) for x in thresholds)
    for method, threshold in (("", 0.0), *methods, ("sparsify", thresholds[1])):
        tagger = pickle.loads(whole)
        if method == "prune":
            tagger.prune(threshold)
        elif method:
            tagger[-1].sparsify(threshold)
        predicted, spent = tagger.predict(test[0]), []
        for row in words:
            with Clock() as clock:
                tagger.predict([row])
            spent.append(clock.seconds)
        sizes = []
        with tempfile.TemporaryDirectory() as folder:
            for name, write in (
                ("x.joblib", lambda path, tagger=tagger: joblib.dump(tagger, path)),
                ("x.json.gz", tagger.to_json),
            ):
                path = Path(folder) / name
                write(path)
                sizes.append(path.stat().st_size)
        score = 100 * chunk_f1_score(test[1], predicted)
        rows.append(
            [
                method, threshold, tagger[-1].n_features_in_, f"{score:.2f}",
                *(f"{size / 1e6:.2f}" for size in sizes),
                f"{1e6 * np.median(spent):.0f}",
            ]
        )  # fmt: skip
    header = "method", "threshold", "features", "F1", "joblib MB", "JSON gz MB", "us"
    table(f"Smaller models, loss={loss!r}", header, rows)


train, test = data("train"), data("test")
if not args.small:
    threads(trained("log"))
    tagger = trained()
    one_sentence(tagger)
    requests(tagger)
for loss in ("hinge", "log"):
    smaller(loss)
