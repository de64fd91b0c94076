"""Named entities: usual attributes of a token, and data with one token in a line."""

import gzip
import os
import re
from pathlib import Path

SETS = ("anem", "btc", "wnut17")


def shape(word):
    """Letters to a or A, digits to 0, runs of the same to one."""
    word = re.sub("[A-Z]", "A", word)
    word = re.sub("[a-z]", "a", word)
    return re.sub(r"(.)\1+", r"\1", re.sub("[0-9]", "0", word))


def entity_features(words):
    """Attributes of one sentence: a dict for each token."""
    lower, shapes = [word.lower() for word in words], [shape(word) for word in words]
    rows = []
    for t, word in enumerate(words):
        row = {
            "bias": 1.0,
            "w": lower[t],
            "suffix3": word[-3:],
            "suffix2": word[-2:],
            "prefix3": word[:3],
            "shape": shapes[t],
        }
        for name in ("isupper", "istitle", "isdigit"):
            if getattr(word, name)():
                row[name] = 1.0
        for offset in (-2, -1, 1, 2):
            if 0 <= t + offset < len(words):
                row[f"{offset:+d}:w"] = lower[t + offset]
                row[f"{offset:+d}:shape"] = shapes[t + offset]
        if t == 0:
            row["BOS"] = 1.0
        if t == len(words) - 1:
            row["EOS"] = 1.0
        rows.append(row)
    return rows


def entity_data(name, subset, data_home, folder="ner", n=None):
    """Attributes and labels of the (first n) sentences of a set."""
    home = Path(data_home or os.environ.get("SKSSTRUCT_DATA", "."))
    path = home / folder / f"{name}_{subset}.txt.gz"
    # words may be empty where columns are separated by tabs, and stay so
    words, labels = [[]], [[]]
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        for line in lines:
            columns = line.rstrip("\n").split("\t" if "\t" in line else None)
            if not line.strip():
                words.append([])
                labels.append([])
                continue
            words[-1].append(columns[0])
            labels[-1].append(columns[-1])
    features = [entity_features(row) for row in list(filter(None, words))[:n]]
    return features, list(filter(None, labels))[:n]
