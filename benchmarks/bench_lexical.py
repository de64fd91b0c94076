"""Clusters and gazetteers: chunk F1 with and without them, and CRFsuite's with them.

Taggers have their defaults. Tweets get the clusters of the folder ``clusters`` of the
data. Learned clusters are those of all text of a set (of both sets of tweets), also of
its test sentences, without the labels; gazetteers are the entities of training.

    python benchmarks/bench_lexical.py [--sets wnut17 btc ncbi bc2gm] [--no-crfsuite]
"""

import argparse
import os
import time
import warnings
from pathlib import Path

from _crfsuite import pycrfsuite, train_crfsuite
from _entities import entity_data
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from sksstruct import ChainCRF, SegmentCRF
from sksstruct.feature_extraction import (
    ClusterFeatures,
    GazetteerFeatures,
    SequenceVectorizer,
    WordClusters,
)
from sksstruct.metrics import chunk_f1_score, convert_labels

TWEETS, ABSTRACTS = ("wnut17", "btc"), {"ncbi": "ncbi_disease", "bc2gm": "bc2gm"}
PENALTY = {"c1": 0.1, "c2": 0.1, "max_iterations": 100}


def read(name, home):
    """Attributes and labels for training and for the test."""
    if name in TWEETS:
        return [entity_data(name, part, home) for part in ("train", "test")]
    name = f"{ABSTRACTS[name]}_iobes"
    *train, test = (
        entity_data(name, part, home, "bio") for part in ("train", "devel", "test")
    )
    train = [a + b for a, b in zip(*train, strict=True)]
    return [(X, convert_labels(y, "IOBES")) for X, y in (train, test)]


def transformers(name, home):
    """Transformers in front of the vectorizer, by what they add."""
    is_tweets, text = name in TWEETS, []
    parts = ("train", "dev" if is_tweets else "devel", "test")
    for each in TWEETS if is_tweets else [f"{ABSTRACTS[name]}_iobes"]:
        for part in parts:
            text += entity_data(each, part, home, "ner" if is_tweets else "bio")[0]
    learned = ClusterFeatures(WordClusters(random_state=0).fit(text).paths_)
    added = {"usual attributes": [], "with learned clusters": [learned]}
    if is_tweets:
        path = Path(home) / "clusters" / "twitter_brown_paths.txt.gz"
        return added | {"with given clusters": [ClusterFeatures(path)]}
    gazetteers = GazetteerFeatures()
    return added | {
        "with gazetteers": [gazetteers],
        "with both": [learned, gazetteers],
    }


def report(what, who, seconds, true, found, prepared=""):
    f1 = 100 * chunk_f1_score(true, [list(labels) for labels in found])
    print(f"{what:28s} {who:22s} {f1:6.2f} {seconds:8.2f} {prepared:>8s}", flush=True)


def ours(what, steps, train, test):
    """Rows of our taggers."""
    start = time.process_time()
    steps = make_pipeline(*steps, SequenceVectorizer())
    X = steps.fit_transform(*train)
    prepared = f"{time.process_time() - start:.2f}"
    X_test = steps.transform(test[0])
    for who, tagger in {
        "ChainCRF()": ChainCRF(random_state=0),
        'ChainCRF(loss="log")': ChainCRF(loss="log", random_state=0),
        "SegmentCRF, by segment": SegmentCRF(loss_unit="segment", random_state=0),
    }.items():
        start = time.process_time()
        tagger.fit(X, train[1])
        seconds = time.process_time() - start
        report(what, who, seconds, test[1], tagger.predict(X_test), prepared)


def crfsuite(what, steps, train, test):
    """Row of CRFsuite's L-BFGS, as most tutorials call it."""
    # without a last step, as CRFsuite reads dicts itself
    steps = make_pipeline(*steps, "passthrough")
    items = [pycrfsuite.ItemSequence(row) for row in steps.fit_transform(*train)]
    tagger, seconds, _ = train_crfsuite(items, train[1], "lbfgs", PENALTY)
    found = [tagger.tag(row) for row in steps.transform(test[0])]
    report(what, "CRFsuite", seconds, test[1], found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", default=[*TWEETS, *ABSTRACTS])
    parser.add_argument("--data-home", default=os.environ.get("SKSSTRUCT_DATA", "."))
    parser.add_argument("--no-crfsuite", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name in options.sets:
        train, test = read(name, options.data_home)
        print(f"\n{name:51s}     F1    fit s prepared")
        for what, steps in transformers(name, options.data_home).items():
            ours(what, steps, train, test)
            if pycrfsuite is not None and not options.no_crfsuite:
                crfsuite(what, steps, train, test)


if __name__ == "__main__":
    main()
