"""Files with mistakes: read as something consistent, or refused by an error."""

import contextlib
import os
import tempfile
from pathlib import Path

import numpy as np

from sksstruct import FactorGraph, Tagger, make_tagger
from sksstruct.crfsuite import Tagger as DropIn
from sksstruct.datasets import (
    dump_fg,
    dump_uai,
    dump_wcsp,
    load_cfn,
    load_ergo,
    load_fg,
    load_uai,
    load_uai_evidence,
    load_uai_solution,
    load_wcsp,
    read_conll,
)
from sksstruct.factor_graphs import Potts
from sksstruct.feature_extraction import (
    ClusterFeatures,
    GazetteerFeatures,
    read_word_vectors,
)
from tests.fuzz._draws import decoded

CFN = """{"problem": {"name": "p", "mustbe": "<12.100"},
 "variables": {"A": ["a", "b"], "B": 3, "C": ["u", "v", "w"]},
 "functions": {"k": {"scope": [], "costs": [0.5]},
  "fA": {"scope": ["A"], "costs": [1.25, 0.75]},
  "fAB": {"scope": ["A", "B"], "defaultcost": 12.1, "costs": ["a", 0, 0.5]},
  "fBC": {"scope": ["B", 2], "costs": [0.1, 0.2, 0.3, 1, 0, 0, -0.7, 0.8, 12.1]}}}
"""
ERGO = """3
2 2 3
0
1 0
1 1
/* Probabilities */
2
 0.436 0.564
4
 0.128 0.872 0.920 0.080
6
 0.210 0.333 0.457 0.811 0.000 0.189
"""
WCSP_OF_KEYWORDS = """x 4 3 4 50
3 3 3 2
3 0 1 2 -1 salldiff var 10
2 0 1 -1 >= 1 1
3 0 1 2 3 2
0 0 0 1
2 2 1 4
1 3 0 1
1 2
"""
ROWS, LABELS = [[["a", "b"], ["c"]], [["b"]]], [["x", "y"], ["y"]]
CONLLU = "# text = it\n" + "\t".join(["1", "it", *"abcdefgh"]) + "\n\n"
CONLL = "The DT B-NP\ncat NN I-NP\n\nsat VB O\n# end\n\n"


def _texts():
    rng = np.random.default_rng(0)
    graph = FactorGraph(
        [rng.integers(-3, 1, k).astype(float) for k in (2, 3, 2)],
        [(0, 2)],
        Potts(2, 0.0, -1.0),
        factors=[((0, 1, 2), rng.integers(-3, 1, (2, 3, 2)).astype(float))],
    )
    binary = FactorGraph(
        np.zeros((3, 2)), [(0, 1), (1, 2)], np.array([[0.0, 0.0], [0.0, 1.5]])
    )
    texts = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        for name, dump, source in (
            ("uai", dump_uai, graph),
            ("wcsp", dump_wcsp, graph),
            ("fg", dump_fg, binary),
        ):
            dump(source, path)
            texts[name] = path.read_bytes()
    for name, text in (("cfn", CFN), ("ergo", ERGO), ("conll", CONLL),
                       ("keywords", WCSP_OF_KEYWORDS), ("evidence", "1 0 1\n"),
                       ("solution", "MPE\n3 1 2 0\n"),
                       ("clusters", "01\ta\t2\n10\tb\t1\n"),
                       ("gazetteer", "New York\nParis\n"),
                       ("vectors", "2 3\nthe 0.5 1 0\ncat 1.5 0 2\n"),
                       ("conllu", CONLLU)):  # fmt: skip
        texts[name] = text.encode()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        tagger = make_tagger(max_iter=20, transition_features="a").fit(ROWS, LABELS)
        tagger.to_json(path)
        # edits are of words
        texts["json"] = path.read_bytes().replace(b",", b" , ").replace(b":", b" : ")
        make_tagger(max_iter=20).fit(ROWS, LABELS).to_crfsuite(path)
        texts["crfsuite"] = path.read_bytes()
    return texts


def _read_conllu(path):
    return read_conll(path, n_columns=10, separator="\t", comment="#")


TEXTS = _texts()
# one for all cases: to make and remove a folder takes longer than to read the file
_FOLDER = tempfile.TemporaryDirectory()
FOLDER = Path(_FOLDER.name)
LOADERS = {
    "uai": (load_uai, ".uai"),
    "wcsp": (load_wcsp, ".wcsp"),
    "keywords": (load_wcsp, ".wcsp"),
    "fg": (load_fg, ".fg"),
    "cfn": (load_cfn, ".cfn"),
    "ergo": (load_ergo, ".erg"),
    "evidence": (lambda path: load_uai_evidence(path, [2, 3, 2]), ".evid"),
    "clusters": (lambda path: ClusterFeatures(path).fit([]), ".txt"),
    "gazetteer": (
        lambda path: GazetteerFeatures({"a": path, "b": ["x"]}).fit([]),
        ".txt",
    ),
    "vectors": (read_word_vectors, ".vec"),
    "conllu": (_read_conllu, ".conllu"),
    "solution": (lambda path: load_uai_solution(path, [2, 3, 2]), ".mpe"),
    "conll": (lambda path: read_conll(path, comment="#"), ".txt"),
    "json": (Tagger.from_json, ".json"),
    "crfsuite": (Tagger.from_crfsuite, ".crfsuite"),
}
WORDS = [b"0", b"1", b"-1", b"3", b"1e999", b"nan", b"99999999999999999999", b"-0.5",
         b"x", b"{", b"}", b"[", b",", b'"', b"/*", b"#", b"\x00", b"\xff\xfe", b"\n",
         b"1000000", b"2147483647", b"MARKOV", b"salldiff", b"knapsack"]  # fmt: skip
HOW = ["replace", "insert", "drop", "cut", "byte", "swap"]


def _case(draws):
    edits = [
        (draws.choice(HOW), draws.integer(0, 10**4), draws.choice(WORDS))
        for _ in range(draws.integer(1, 3))
    ]
    return draws.choice(sorted(LOADERS)), edits


cases = decoded(20, _case)


def _edited(text, edits):
    for how, at, word in edits:
        words = text.split(b" ")
        k = at % len(words)
        if how == "replace":
            words[k] = word
        elif how == "insert":
            words.insert(k, word)
        elif how == "drop":
            del words[k]
        elif how == "swap":
            words[k], words[0] = words[0], words[k]
        text = b" ".join(words)
        if how == "cut":
            text = text[: at % (len(text) + 1)]
        elif how == "byte" and text:
            at %= len(text)
            text = text[:at] + bytes([word[0]]) + text[at + 1 :]
    return text


def _tag(path):
    """The drop-in reads a file in parts, and more of it is damaged than it sees."""
    tagger = DropIn()
    with contextlib.suppress(ValueError), tagger.open(path):
        for sentence in ROWS:
            assert set(tagger.tag(sentence)) <= set(tagger.labels())
            assert len(tagger.marginals()) == len(sentence)
        tagger.info()


def check(case):
    """What is read is consistent; else a short ValueError names the file."""
    name, edits = case
    load, suffix = LOADERS[name]
    path = FOLDER / f"{os.getpid()}{suffix}"
    path.write_bytes(_edited(TEXTS[name], edits))
    if name == "crfsuite":
        _tag(path)
    try:
        found = load(path)
    except ValueError as error:
        assert str(error).startswith(str(path)) and len(str(error)) < 1000, error
        return
    with contextlib.suppress(ValueError):
        if isinstance(found, FactorGraph):
            assert not np.isnan(found.score(np.zeros(found.n_variables, dtype=int)))
        elif isinstance(found, Tagger):
            labels = np.concatenate(found.predict(ROWS))
            assert set(labels.tolist()) <= set(found[-1].classes_.tolist())
