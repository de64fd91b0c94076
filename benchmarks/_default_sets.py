"""Data sets of many kinds on which defaults are judged.

Each entry of `SETS` is a kind and a function of `Reader`, which returns what is trained
on and what is held back. Sets of the data folder are left out where it has no file.
"""

import sys
from pathlib import Path

import numpy as np
from _entities import entity_data, entity_features
from sklearn import datasets
from sklearn.datasets import load_svmlight_file

from sksstruct.datasets import (
    fetch_conll2000,
    fetch_ocr_letters,
    load_digit_strings,
    load_multilabel,
    load_weizmann_horses,
    make_chain,
    make_segments,
    read_conll,
)
from sksstruct.datasets._fetch import get_data_home
from sksstruct.feature_extraction import (
    ArcVectorizer,
    ColumnFeatures,
    window_features,
)
from sksstruct.metrics import convert_labels
from sksstruct.models import grid_graph

sys.path.append(str(Path(__file__).parents[1] / "examples"))


class Reader:
    """The sets, none with more examples than `limit` to train on, or twice to test.

    Parameters
    ----------
    home : str or None
        Folder of the data sets; None is the default of `sksstruct.datasets`.
    limit : int
        Number of sequences, of graphs or of sets of labels; there are four times as
        many samples of classes.
    """

    def __init__(self, home, limit):
        self.home, self.limit = get_data_home(home), limit
        # what is not made into features at all
        self._parts = ("train", limit), ("test", 2 * limit)

    def load(self, name):
        """X, y, X_test, y_test of a set."""
        kind, load = SETS[name]
        size = self.limit * (4 if kind == "classes" else 1)
        parts = load(self)
        if kind == "trees":
            return self._arcs(*parts)
        X, y, X_test, y_test = parts
        return X[:size], y[:size], X_test[: 2 * size], y_test[: 2 * size]

    # ---- text ----

    def entities(self, name, folder="ner"):
        parts = (entity_data(name, part, self.home, folder, n)
                 for part, n in self._parts)  # fmt: skip
        return [each for part in parts for each in part]

    def biology(self, name):
        X, y, X_test, y_test = self.entities(f"{name}_iobes", "bio")
        y, y_test = (convert_labels(labels, "IOBES") for labels in (y, y_test))
        return X, y, X_test, y_test

    def chunks(self):
        from _chunking import chunking_features

        out = []
        for part, n in self._parts:
            data = fetch_conll2000(part, data_home=self.home)
            rows = zip(data.words[:n], data.tags[:n], strict=True)
            out += [[chunking_features(*row) for row in rows], data.labels[:n]]
        return out

    def _columns(self, name, *wanted, n=None):
        sentences = read_conll(self.home / name, separator="\t")[:n]
        return [[sentence[k] for sentence in sentences] for k in wanted]

    def addresses(self):
        parts = (self._columns(f"addresses/us_{part}.txt.gz", 0, 1, n=n)
                 for part, n in self._parts)  # fmt: skip
        (X, y), (X_test, y_test) = parts
        X, X_test = (list(map(entity_features, words)) for words in (X, X_test))
        return X, y, X_test, y_test

    def greek_tags(self):
        parts = (self._columns(f"ud/el_gdt_{part}.txt.gz", 0, 1, n=n)
                 for part, n in self._parts)  # fmt: skip
        (X, y), (X_test, y_test) = parts
        usual = ColumnFeatures()
        return usual.fit_transform(X), y, usual.transform(X_test), y_test

    def treebank_tags(self):
        rows = read_conll(self.home / "treebank/treebank_pos.txt.gz", n_columns=2)
        rows = rows[: self.limit] + rows[3100 : 3100 + 2 * self.limit]
        X = ColumnFeatures().fit_transform([words for words, _ in rows])
        y, n = [tags for _, tags in rows], self.limit
        return X[:n], y[:n], X[n:], y[n:]

    def characters(self):
        X, y = self._columns("ud/th_pud_characters.txt.gz", 0, 1)
        near = [[("c", k)] for k in range(-2, 3)]
        near += [[("c", k), ("c", k + 1)] for k in range(-2, 2)]
        X = [window_features({"c": letters}, near) for letters in X]
        return X[:80], y[:80], X[80:], y[80:]

    def prose(self):
        from quick import prose

        return prose()

    # ---- dependencies, after the limit: features of arcs take memory ----

    def treebank(self):
        from bench_parsing import read

        X, y = read(self.home / "treebank/dependencies.txt.gz", 0, 1, 2)
        return X[:3100], y[:3100], X[3100:], y[3100:]

    def greek_trees(self):
        from bench_parsing import read

        parts = (read(self.home / f"ud/el_gdt_{part}.txt.gz", 0, 1, 3)
                 for part in ("train", "test"))  # fmt: skip
        return [each for part in parts for each in part]

    def _arcs(self, X, y, X_test, y_test):
        from bench_parsing import is_projective

        kept = [i for i, heads in enumerate(y) if is_projective(heads)]
        kept, n = kept[: self.limit], 2 * self.limit
        X, y = [X[i] for i in kept], [y[i] for i in kept]
        vectorizer = ArcVectorizer().fit(X, y)
        return vectorizer.transform(X), y, vectorizer.transform(X_test[:n]), y_test[:n]

    # ---- letters, series ----

    def letters(self):
        words = fetch_ocr_letters("fold0", data_home=self.home)
        rest = fetch_ocr_letters("rest", data_home=self.home)
        return words.X, words.y, rest.X, rest.y

    def digit_strings(self):
        strings = load_digit_strings(n_train=self.limit, n_test=2 * self.limit)
        return strings.X_train, strings.y_train, strings.X_test, strings.y_test

    def gestures(self):
        parts = []
        for names in (("a1", "a2", "b1", "c1"), ("a3", "b3", "c3")):
            tables = [np.loadtxt(self.home / f"gesture/{name}.csv.gz", str, None,
                                 delimiter=",") for name in names]  # fmt: skip
            parts += [[table[:, :-1].astype(float) for table in tables],
                      [table[:, -1].tolist() for table in tables]]  # fmt: skip
        frames = np.concatenate(parts[0])
        for k in (0, 2):
            parts[k] = [(x - frames.mean(0)) / frames.std(0) for x in parts[k]]
        return parts

    def horses(self):
        from _horse_features import codebooks, graph, majority

        data = load_weizmann_horses(data_home=self.home)
        n = min(self.limit, 100)
        images, masks = data.images[: 2 * n], data.masks[: 2 * n]
        books = codebooks(images[:n])
        X, numbers = zip(*(graph(image, books) for image in images), strict=True)
        y = [
            majority(number, mask) for number, mask in zip(numbers, masks, strict=True)
        ]
        return X[:n], y[:n], X[n:], y[n:]

    # ---- classes and sets of labels ----

    def single_letters(self):
        parts = self.letters()
        return [np.concatenate(part[: 2 * self.limit]) for part in parts]

    def adults(self):
        parts = (load_svmlight_file(str(self.home / f"binary/a9a_{part}.svm.gz"),
                                    n_features=123, zero_based=False)
                 for part in ("train", "test"))  # fmt: skip
        return [each for part in parts for each in part]

    def topic(self):
        X, Y, X_test, Y_test = self.sets("rcv1sub1")
        column = np.asarray(Y.sum(axis=0)).argmax()
        return X, Y[:, column], X_test, Y_test[:, column]

    def sets(self, name):
        train, test = (load_multilabel(name, part, data_home=self.home)
                       for part in ("train", "test"))  # fmt: skip
        return train.X, train.y, test.X, test.y

    def prepared_sets(self, name):
        from _label_sets import load

        return load(name, self.home)


# ---- generated ----

_SYLLABLES = "ba de ki lo mu ne pa ra si to vu wa ze cho fir gan hol jas".split()


def words_of(rng, n):
    """So many words that look like some."""
    parts = rng.choice(_SYLLABLES, (n, 3))
    sizes = rng.integers(1, 4, n)
    return np.array(["".join(row[:k]) for row, k in zip(parts, sizes, strict=True)])


def made_entities(length, rate, n_types=4, n=1500, seed=0):
    """Sentences with names, half of which follow a word that tells their type."""
    rng = np.random.default_rng(seed)
    words = words_of(rng, 4000)
    shares = 1.0 / (5.0 + np.arange(len(words)))
    shares /= shares.sum()
    names = [np.char.capitalize(words_of(rng, 150)) for _ in range(n_types)]
    X, y = [], []
    for _ in range(2 * n):
        size = 1 + rng.poisson(length - 1)
        tokens = rng.choice(words, size, p=shares).tolist()
        if rng.random() < 0.5:
            tokens[0] = tokens[0].capitalize()
        labels, t = ["O"] * size, 0
        while t < size:
            if rng.random() < rate:
                kind = int(rng.integers(n_types))
                if t and rng.random() < 0.5:
                    tokens[t - 1] = words[3 + 7 * kind + int(rng.integers(7))]
                stop = min(size, t + int(rng.integers(1, 4)))
                for k in range(t, stop):
                    # some names have no capital, some have that of another type
                    other = kind if rng.random() < 0.9 else int(rng.integers(n_types))
                    tokens[k] = str(rng.choice(names[other]))
                    if rng.random() < 0.1:
                        tokens[k] = tokens[k].lower()
                    labels[k] = f"{'B' if k == t else 'I'}-{kind}"
                t = stop
            t += 1
        X.append(entity_features(tokens))
        y.append(labels)
    return X[:n], y[:n], X[n:], y[n:]


def made_tags(n_labels=150, length=12, n=1000, seed=0):
    """Words with one to four of many tags, of which the one before tells something."""
    rng = np.random.default_rng(seed)
    following = rng.dirichlet(np.full(n_labels, 0.03), n_labels)
    of_tag = [rng.integers(3000, size=40) for _ in range(n_labels)]
    X, y = [], []
    for _ in range(2 * n):
        tags = [int(rng.integers(n_labels))]
        while len(tags) < length:
            tags.append(int(rng.choice(n_labels, p=following[tags[-1]])))
        words = [str(of_tag[tag][int(40 * rng.random() ** 2)]) for tag in tags]
        near = [[("w", -1)], [("w", 0)], [("w", 1)]]
        X.append(window_features({"w": words}, near))
        y.append([f"t{tag}" for tag in tags])
    return X[:n], y[:n], X[n:], y[n:]


def made_series(change=lambda x: x, n=400, min_length=5, max_length=30, noise=1.5):
    """Dense series, after a change of their features."""
    data = make_chain(2 * n, n_features=12, n_classes=5, min_length=min_length,
                      max_length=max_length, noise=noise, random_state=0)  # fmt: skip
    X, y = list(map(change, data.X)), data.y
    return X[:n], y[:n], X[n:], y[n:]


def durations():
    data = make_segments(60, random_state=0)
    return data.X[:30], data.y[:30], data.X[30:], data.y[30:]


def bundled(load, change=lambda X: X):
    """A set of scikit-learn in two halves, which are mixed."""

    def parts(reader):
        X, y = load(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        first, second = order[::2], order[1::2]
        X = change(X)
        return X[first], y[first], X[second], y[second]

    return parts


def mixed_units(X):
    """Columns from a tenth to thirty times their size."""
    return X * 0.1 * 300.0 ** np.linspace(0.0, 1.0, X.shape[1])


def some_classes(return_X_y):
    return datasets.make_classification(
        2800, 54, n_informative=20, n_classes=7, n_redundant=10, random_state=0
    )


def made_sets(change=lambda X: X, n=1000):
    """Binary features of twelve labels, after a change."""
    rng = np.random.default_rng(0)
    X = (rng.random((2 * n, 50)) < 0.3).astype(float)
    scores = X @ rng.normal(size=(50, 12)) + rng.normal(size=(2 * n, 12))
    Y = (scores > np.quantile(scores, 0.73, axis=0)).astype(int)
    X = change(X)
    return X[:n], Y[:n], X[n:], Y[n:]


def with_constant(X):
    return np.column_stack([X, np.full(len(X), 100.0)])


def noisy_masks(n=40, size=20):
    """Blurred noise above zero, seen through more noise."""
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(0)
    y = [(gaussian_filter(rng.normal(size=(size, size)), 3) > 0) * 1
         for _ in range(2 * n)]  # fmt: skip
    X = [grid_graph(mask + rng.normal(size=mask.shape), edge_features=None)
         for mask in y]  # fmt: skip
    return X[:n], y[:n], X[n:], y[n:]


def regions(n=30):
    from bench_gdmm import label_images

    X, y = label_images(2 * n, 6, 8)
    return X[:n], y[:n], X[n:], y[n:]


# Entities are judged by the F1 of chunks; tags, series, classes, masks and trees by the
# share that is right; sets of labels by micro F1.
SETS = {
    "CoNLL-2000": ("entities", Reader.chunks),
    "AnEM": ("entities", lambda r: r.entities("anem")),
    "BTC": ("entities", lambda r: r.entities("btc")),
    "WNUT17": ("entities", lambda r: r.entities("wnut17")),
    "Yoruba": ("entities", lambda r: r.entities("yor")),
    "BC2GM": ("entities", lambda r: r.biology("bc2gm")),
    "NCBI disease": ("entities", lambda r: r.biology("ncbi_disease")),
    "short sentences": ("entities", lambda r: made_entities(5, 0.08)),
    "long sentences": ("entities", lambda r: made_entities(60, 0.04, n=300)),
    "rare entities": ("entities", lambda r: made_entities(20, 0.002, 2)),
    "addresses": ("tags", Reader.addresses),
    "Greek tags": ("tags", Reader.greek_tags),
    "treebank tags": ("tags", Reader.treebank_tags),
    "Thai characters": ("tags", Reader.characters),
    "Python's manual": ("tags", Reader.prose),
    "150 tags": ("tags", lambda r: made_tags()),
    "OCR words": ("series", Reader.letters),
    "digit strings": ("series", Reader.digit_strings),
    "gestures": ("series", Reader.gestures),
    "series": ("series", lambda r: made_series()),
    "series + 10": ("series", lambda r: made_series(lambda x: x + 10.0)),
    "series, units": ("series", lambda r: made_series(mixed_units)),
    "few long series": ("series", lambda r: made_series(
        n=6, min_length=400, max_length=500)),
    "durations": ("series", lambda r: durations()),
    "iris": ("classes", bundled(datasets.load_iris)),
    "wine": ("classes", bundled(datasets.load_wine)),
    "breast cancer": ("classes", bundled(datasets.load_breast_cancer)),
    "digits": ("classes", bundled(datasets.load_digits)),
    "digits / 16 + 10": ("classes", bundled(
        datasets.load_digits, lambda X: X / 16 + 10)),
    "classes": ("classes", bundled(some_classes)),
    "classes, units": ("classes", bundled(some_classes, mixed_units)),
    "OCR letters": ("classes", Reader.single_letters),
    "a9a": ("classes", Reader.adults),
    "rcv1, one label": ("classes", Reader.topic),
    "emotions": ("sets", lambda r: r.prepared_sets("emotions")),
    "emotions, units": ("sets", lambda r: r.sets("emotions")),
    "scene": ("sets", lambda r: r.prepared_sets("scene")),
    "yeast": ("sets", lambda r: r.prepared_sets("yeast")),
    "medical": ("sets", lambda r: r.prepared_sets("medical")),
    "rcv1": ("sets", lambda r: r.prepared_sets("rcv1sub1")),
    "bibtex": ("sets", lambda r: r.prepared_sets("bibtex")),
    "like enron": ("sets", lambda r: r.prepared_sets("like enron")),
    "binary": ("sets", lambda r: made_sets()),
    "1 - binary": ("sets", lambda r: made_sets(lambda X: 1.0 - X)),
    "binary + 10": ("sets", lambda r: made_sets(lambda X: X + 10.0)),
    "binary and 100": ("sets", lambda r: made_sets(with_constant)),
    "horses": ("cuts", Reader.horses),
    "noisy masks": ("cuts", lambda r: noisy_masks()),
    "regions": ("cycles", lambda r: regions()),
    "treebank": ("trees", Reader.treebank),
    "Greek trees": ("trees", Reader.greek_trees),
}  # fmt: skip
