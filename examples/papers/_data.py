"""Data of the papers' experiments, as the estimators take them."""

import gzip
import sys
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_svmlight_file,
    make_multilabel_classification,
)
from sklearn.preprocessing import StandardScaler, normalize

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.datasets import (
    fetch_conll2000,
    fetch_ocr_letters,
    load_digit_strings,
    load_multilabel,
    load_weizmann_horses,
    make_digit_clutter,
    make_stick_figures,
)
from sksstruct.datasets._fetch import get_data_home
from sksstruct.estimators._train import prepare
from sksstruct.feature_extraction import SequenceVectorizer, window_features
from sksstruct.models import GraphModel, PartsModel

# the features of the gallery's examples
sys.path.append(str(Path(__file__).parents[1]))

# CRFsuite's template for chunking: 19 attributes a token.
_W = [[("w", k)] for k in range(-2, 3)] + [[("w", k), ("w", k + 1)] for k in (-1, 0)]
_POS = (
    [[("pos", k)] for k in range(-2, 3)]
    + [[("pos", k), ("pos", k + 1)] for k in range(-2, 2)]
    + [[("pos", k), ("pos", k + 1), ("pos", k + 2)] for k in range(-2, 1)]
)


def chunking_features(words, tags):
    """Attributes of one sentence."""
    return window_features({"w": words, "pos": tags}, _W + _POS)


def chunking_data(subset, data_home=None):
    """Lists of attribute strings, and labels, of CoNLL-2000."""
    data = fetch_conll2000(subset, data_home=data_home)
    pairs = zip(data.words, data.tags, strict=True)
    return [chunking_features(words, tags) for words, tags in pairs], data.labels


@cache
def ocr(subset):
    """Words of the OCR letters."""
    data = fetch_ocr_letters(subset)
    return data.X, data.y


@cache
def digits(n):
    """Strings of scikit-learn's digits, for those who have no data folder."""
    data = load_digit_strings(n_train=n, n_test=1)
    return list(data.X_train), list(data.y_train)


@cache
def conll(n=None):
    """The first sentences of CoNLL-2000, as rows of attributes."""
    X, y = chunking_data("train")
    return SequenceVectorizer(dtype=np.float32).fit_transform(X[:n]), y[:n]


def tagger(alpha=1.0, **parameters):
    """Chain with the papers' loss: a share of each sequence's own length."""
    return ChainCRF(alpha, loss_normalization="sequence", **parameters)


@cache
def horses(n):
    """Superpixels of n Weizmann horses, and an estimator for minimum cuts."""
    from _horse_features import codebooks, graph, majority

    data = load_weizmann_horses()
    order = np.random.default_rng(0).permutation(len(data.images))[:n]
    books = codebooks([data.images[i] for i in order])
    X, numbers = zip(*(graph(data.images[i], books) for i in order), strict=True)
    masks = [data.masks[i] for i in order]
    y = [majority(k, mask) for k, mask in zip(numbers, masks, strict=True)]
    model = GraphModel("potts", inference="cut", class_weight="balanced")
    return SSVMClassifier(model), list(X), y


@cache
def figures(n):
    """Synthetic stick figures, and an estimator for a tree of parts on a grid."""
    from _figure_features import patches

    data = make_stick_figures(n, wobble=0.12, raised=0.5, random_state=0)
    model = PartsModel(data.bones, unit=5.0)
    return SSVMClassifier(model), [patches(x) for x in data.images], list(data.joints)


def bound(estimator, X, y):
    """The estimator's model, bound to the data."""
    return prepare(estimator, X, y).model


@cache
def binary(name):
    """Training and test set of two classes, -1 and 1; rows are about of unit size."""
    if name == "a9a":
        home, parts = get_data_home(), []
        for part in ("train", "test"):
            path = home / "binary" / f"a9a_{part}.svm.gz"
            if not path.is_file():
                raise OSError(f"{path} is not there: data_home is the data folder")
            parts += load_svmlight_file(str(path), n_features=123)
        return tuple(parts)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        X, y = X / 16, np.where(y < 5, -1.0, 1.0)
    else:
        X, y = load_breast_cancer(return_X_y=True)
        X = (X - X.mean(axis=0)) / X.std(axis=0) / X.shape[1] ** 0.5
        y = np.where(y == 0, -1.0, 1.0)
    order = np.random.RandomState(0).permutation(len(y))
    half = len(y) // 2
    train, test = order[:half], order[half:]
    return X[train], y[train], X[test], y[test]


def handwriting(n, n_labels, n_features=64, noise=2.0, length=14, seed=0):
    """Sentences of labels, and a noisy descriptor of unit length for each."""
    rng = np.random.RandomState(seed)
    zipf = 1.0 / np.arange(1, n_labels + 1)
    zipf /= zipf.sum()
    m = min(10, n_labels)
    next_ones = np.array(
        [rng.choice(n_labels, m, replace=False, p=zipf) for _ in range(n_labels)]
    )
    likely = 1.0 / np.arange(1, m + 1)
    likely /= likely.sum()
    prototypes = normalize(rng.standard_normal((n_labels, n_features)))
    X, y = [], []
    for _ in range(n):
        labels = [rng.choice(n_labels, p=zipf)]
        for _ in range(max(1, rng.poisson(length) - 1)):
            if rng.uniform() < 0.7:
                labels.append(next_ones[labels[-1], rng.choice(m, p=likely)])
            else:
                labels.append(rng.choice(n_labels, p=zipf))
        noisy = rng.standard_normal((len(labels), n_features)) * noise
        X.append(normalize(prototypes[labels] + noisy / np.sqrt(n_features)))
        y.append(np.array(labels))
    return X, y


@cache
def part_of_speech(n):
    """Sentences of the Penn treebank sample, as attributes, and their 45 tags."""
    path = get_data_home() / "treebank" / "treebank_pos.txt.gz"
    if not path.is_file():
        raise OSError(f"{path} is not there: data_home is the data folder")
    with gzip.open(path, "rt") as file:
        blocks = file.read().strip().split("\n\n")[:n]
    X, y = [], []
    for block in blocks:
        words, tags = zip(*(line.split() for line in block.splitlines()), strict=True)
        X.append([attributes(words, t) for t in range(len(words))])
        y.append(list(tags))
    return SequenceVectorizer(dtype=np.float64).fit_transform(X), y


def attributes(words, t):
    """Word, its neighbors, its end and its shape."""
    word = words[t]
    return [
        f"w={word.lower()}",
        f"before={words[t - 1].lower() if t else ''}",
        f"after={words[t + 1].lower() if t + 1 < len(words) else ''}",
        f"end={word[-3:].lower()}",
        f"shape={word[0].isupper()}{word[0].isdigit()}{'-' in word}",
    ]


@cache
def label_sets(name):
    """Rows and sets of labels, for training and for testing."""
    if name == "made":
        X, Y = make_multilabel_classification(300, n_classes=8, random_state=0)
        X = StandardScaler().fit_transform(X) / X.shape[1] ** 0.5
        return X[:200], Y[:200], X[200:], Y[200:]
    train, test = (load_multilabel(name, subset) for subset in ("train", "test"))
    return normalize(train.X), train.y, normalize(test.X), test.y


@cache
def entities(n_train, n_test):
    """Tweets with entities, of the Broad Twitter Corpus: training and test set."""
    rows = []
    for subset, n in (("train", n_train), ("test", n_test)):
        path = get_data_home() / "ner" / f"btc_{subset}.txt.gz"
        if not path.is_file():
            raise OSError(f"{path} is not there: data_home is the data folder")
        words, labels = [[]], [[]]
        with gzip.open(path, "rt", encoding="utf8") as file:
            for line in file:
                columns = line.split()
                if columns:
                    words[-1].append(columns[0])
                    labels[-1].append(columns[-1])
                elif words[-1]:
                    words.append([])
                    labels.append([])
        # from all parts of the corpus
        pick = np.linspace(0, len(words) - 2, n).astype(int)
        rows.append(([words[i] for i in pick], [labels[i] for i in pick]))
    (words, y), (test_words, y_test) = rows
    vectorizer = SequenceVectorizer(dtype=np.float64)
    X = vectorizer.fit_transform([described(row) for row in words])
    return X, y, vectorizer.transform([described(row) for row in test_words]), y_test


def described(words):
    """Attributes of all words of a sentence."""
    return [attributes(words, t) for t in range(len(words))]


@cache
def clutter(n, n_test):
    """Candidates in images of digits among clutter: training and test set."""
    from _clutter_features import boxes_of, describe

    parts = []
    for seed, (part, size) in enumerate((("train", n), ("test", n_test))):
        data = make_digit_clutter(size, part=part, random_state=seed)
        # every seventh box of the gallery's example, for runs that are short
        boxes = boxes_of(data.images.shape[1])[::7]
        parts.append([(describe(image, boxes), boxes) for image in data.images])
        pairs = zip(data.boxes, data.labels, strict=True)
        parts.append([(tuple(box), label) for box, label in pairs])
    return tuple(parts)
