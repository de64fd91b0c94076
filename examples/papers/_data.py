"""Data of the papers' experiments, as the estimators take them."""

import sys
from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file

from sksstruct import ChainCRF, SSVMClassifier
from sksstruct.datasets import (
    fetch_conll2000,
    fetch_ocr_letters,
    load_digit_strings,
    load_weizmann_horses,
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
    from horse_features import codebooks, graph, majority

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
    from figure_features import patches

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
