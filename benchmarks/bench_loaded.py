"""One sentence at a time, from dicts, with a model that was fitted or loaded."""

import gc
import io
import math
import pickle
import random
import time
import warnings
from functools import partial

from _common import Clock, arguments, table

from _crfsuite import pycrfsuite, train_crfsuite  # isort: skip
from _entities import entity_features  # isort: skip
import joblib
import numpy as np
import skops.io
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from sksstruct import make_tagger

args = arguments(__doc__, quick="leave out the largest vocabulary")
warnings.simplefilter("ignore", ConvergenceWarning)
SIZES = (10**4, 10**5) if args.quick else (10**4, 10**5, 10**6)
LABELS = "O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"
LENGTH = 25
# Words are as frequent as in texts: the one of rank r has probability 1 / r or so.
N_WORDS = 3 * 10**5


def sentence(rng):
    """Made-up words of 3 to 9 letters, some of them capitalized."""
    words = []
    for _ in range(LENGTH):
        rank = int(math.exp(rng.random() * math.log(N_WORDS)))
        letters = random.Random(rank)
        word = "".join(letters.choices("etaoinshrdlu", k=letters.randint(3, 9)))
        words.append(word.title() if rank % 9 == 0 else word)
    return words


def label(word):
    """A label that follows from the word."""
    return LABELS[1 + sum(map(ord, word)) % 6] if word.istitle() else "O"


def corpus(size):
    """Sentences that have so many attributes, their labels, and other sentences."""
    rng, seen, features, labels = random.Random(0), set(), [], []
    while len(seen) < size:
        words = sentence(rng)
        features.append(entity_features(words))
        labels.append([label(word) for word in words])
        seen.update(
            (name, value if isinstance(value, str) else "")
            for row in features[-1]
            for name, value in row.items()
        )
    return features, labels, [entity_features(sentence(rng)) for _ in range(500)]


def from_bytes(write, read):
    """What was written and read again, MB, and seconds of reading."""
    file = io.BytesIO()
    write(file)
    file.seek(0)
    gc.collect()
    with Clock() as clock:
        model = read(file)
    return model, len(file.getvalue()) / 1e6, clock.seconds


def loaded(tagger):
    """The tagger, and what it is after a journey; MB and seconds of loading."""
    yield "fresh", tagger, "", ""
    yield "fresh, in a Pipeline", plain(tagger), "", ""
    journeys = {
        "joblib, compress=3": (partial(joblib.dump, tagger, compress=3), joblib.load),
        "joblib": (partial(joblib.dump, tagger), joblib.load),
        "pickle": (partial(pickle.dump, tagger), pickle.load),
        "skops": (partial(skops.io.dump, tagger), load_skops),
    }
    for name, journey in journeys.items():
        model, size, seconds = from_bytes(*journey)
        yield name, model, f"{size:.1f}", f"{seconds:.3f}"
    yield "skops, in a Pipeline", plain(model), "", ""


def plain(tagger):
    """scikit-learn's pipeline of the same steps."""
    return make_pipeline(*(step for _, step in tagger.steps))


def load_skops(file):
    """A tagger of this benchmark's own."""
    types = skops.io.get_untrusted_types(data=file.getvalue())
    return skops.io.loads(file.getvalue(), trusted=types)


def times(calls, data, rounds=5):
    """Microseconds of the first call, and the median and 90th percentile, in turns.

    The least of some rounds counts for each sentence, as others use the machine, too.
    """
    first, spent = {}, {name: np.full(len(data), np.inf) for name in calls}
    order = random.Random(0)
    for name, call in calls.items():
        with Clock() as clock:
            call(data[0])
        first[name] = clock.seconds
    for _ in range(rounds):
        for k, row in enumerate(data):
            # none is always the one after the same other, which fills the caches
            for name in order.sample(sorted(calls), len(calls)):
                start = time.process_time()
                calls[name](row)
                spent[name][k] = min(spent[name][k], time.process_time() - start)
    return {
        name: (1e6 * first[name], *(1e6 * np.percentile(spent[name], [50, 90])))
        for name in calls
    }


rows = []
for size in SIZES:
    features, labels, data = corpus(size)
    tagger = make_tagger(solver="bcfw", max_iter=2, random_state=0)
    tagger.fit(features, labels)
    calls, files = {}, {}
    for name, model, *file in loaded(tagger):
        calls[name] = lambda row, model=model: model.predict([row])[0]
        files[name] = file
    if pycrfsuite is not None:
        # all weights that the data show, which is its default
        options = {"c1": 0.0, "c2": 1.0, "max_iterations": 3}
        peer, _, _ = train_crfsuite(features, labels, "lbfgs", options)
        calls["python-crfsuite"] = peer.tag
        files["python-crfsuite"] = "", ""
    n = len(tagger[0].feature_names_)
    del features
    gc.collect()
    found = times(calls, data)
    base = found.get("python-crfsuite", (0, math.nan))[1]
    for name, numbers in found.items():
        ratio = f"{numbers[1] / base:.2f}"
        rows.append([n, name, *(f"{x:.0f}" for x in numbers), ratio, *files[name]])
header = "attributes", "model", "first call", "median", "90 %", "ratio", "MB", "load, s"
table(f"A sentence of {LENGTH} tokens, CPU microseconds", header, rows)
