"""Formats beside UAI, WCSP tables and fg, and what all formats share."""

import bz2
import lzma
import tracemalloc

import numpy as np
import pytest
from map_graphs import enumerate_labelings, random_graph

from sksstruct.datasets import (
    dump_uai,
    load_cfn,
    load_ergo,
    load_uai,
    load_uai_evidence,
    load_wcsp,
)
from sksstruct.datasets._tokens import Tokens
from sksstruct.inference.map import MAP_SOLVERS, Auto

ERGO = """3
2 2 3
0
1 0
1 1

/* Probabilities */
2
 0.436 0.564
4
 0.128 0.872
 0.920 0.080
6
 0.210 0.333 0.457
 0.811 0.000 0.189

/* Names */
X Y Z
"""
CFN = """{
  "problem": {"name": "test", "mustbe": "<12.100"},
  "variables": {"A": ["a", "b"], "B": 3, "C": ["u", "v", "w"]},
  "functions": {
    "k": {"scope": [], "costs": [0.5]},
    "fA": {"scope": ["A"], "costs": [1.25, 0.75]},
    "fAB": {"scope": ["A", "B"], "defaultcost": 12.1,
            "costs": ["a", 0, 0.5, "b", 1, 2.25, "b", 2, 0.125]},
    "fBC": {"scope": ["B", 2], "costs": [0.1, 0.2, 0.3, 1, 0, 0, -0.7, 0.8, 12.1]}
  }
}
"""


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---- numbers ----


def test_numbers_are_those_of_python():
    """Exact, whatever the digits: short and long, tiny and huge."""
    rng = np.random.default_rng(0)
    words = ["0", "-0", "+1.", ".5", "1e22", "1e23", "9007199254740993", "1e-400",
             "0.1e-22", "123456789012345678901234567890", "4.9e-324", "0e999999999",
             "00000000000000000000001.5", "1.7976931348623157e308"]  # fmt: skip
    words += [
        repr(float(x))
        for x in rng.normal(size=500) * 10.0 ** rng.integers(-30, 30, 500)
    ]
    words += [f"{x:.6g}" for x in rng.normal(size=500)]
    words += [
        f"{a}.{b}e{c}" for a, b, c in rng.integers(0, 10**9, (500, 3)) % [99, 10**9, 40]
    ]
    tokens = Tokens("\n".join(words).encode(), "x")
    found = tokens.numbers(len(words), "numbers")
    assert found.tolist() == [float(word) for word in words]
    assert np.signbit(found[1])
    assert tokens.line() == len(words)
    assert tokens.done()


@pytest.mark.parametrize(
    "word", ["1_0", "1e", "e1", ".", "-", "+-1", "1.2.3", "0x10", "1,5", "nan", "inf",
             "1e5x", "--1", "1e+", "\x00", "1\x00"]
)  # fmt: skip
def test_words_that_are_no_numbers(word):
    for read in (lambda t: t.number("it"), lambda t: t.numbers(1, "it")):
        with pytest.raises(ValueError, match="line 2: it must be"):
            read(Tokens(f"\n {word}\n3".encode(), "x"))


def test_integers():
    tokens = Tokens(b"7 -3\n 999999999999999999 9999999999999999999\x0b1", "x")
    assert [tokens.integer("it") for _ in range(5)] == [
        7, -3, 10**18 - 1, 10**19 - 1, 1,
    ]  # fmt: skip
    for text, message in (
        (b"\n1.0", "line 2: it must be an integer, got '1.0'"),
        (b"+1", "must be an integer"),
        (b"9" * 21, "must be an integer"),
        (b"-", "must be an integer"),
        (b"1\n\n5", r"line 3: it must be in \[0, 4\], got 5"),
        (b"1\n-1", r"line 2: it must be in \[0, 4\], got -1"),
        (b"1\n99999999999999999999", "line 2: it must be in"),
        (b"1 \n", "line 1: the file ends where it was expected"),
    ):
        tokens = Tokens(text, "x")
        with pytest.raises(ValueError, match=message):
            for _ in range(2):
                tokens.integer("it", 0, 4)
        tokens = Tokens(text + b" 1 1", "x")
        if b"\n" in text and "ends" not in message:
            with pytest.raises(ValueError, match=message):
                tokens.integers(2, "it", 0, 4)


# ---- compressed files, evidence, constants ----


def test_compressed(tmp_path):
    graph = random_graph(np.random.default_rng(0))
    for suffix, module in ((".xz", lzma), (".bz2", bz2)):
        path = tmp_path / f"a.LG{suffix}"
        dump_uai(graph, path, log=True)
        again = load_uai(path)
        x = np.zeros(graph.n_variables, dtype=int)
        assert again.score(x) == pytest.approx(graph.score(x))
        assert module.open(path).read(6) == b"MARKOV"
        with pytest.raises(ValueError, match="truncated or damaged"):
            load_uai(write(tmp_path, f"b.uai{suffix}", "MARKOV"))
        cut = write(tmp_path, f"c.uai{suffix}", path.read_bytes()[:-20])
        with pytest.raises(ValueError, match="truncated or damaged"):
            load_uai(cut)
        bomb = module.compress(b"0" * 20_000_000)
        with pytest.raises(ValueError, match="200 times as many as the file"):
            load_uai(write(tmp_path, f"d.uai{suffix}", bomb))


def test_comments_in_evidence(tmp_path):
    text = "/* Evidence\n of 2006 */\n2 /**/ 0 1\n2 2 /* the end"
    path = write(tmp_path, "a.evid", text)
    assert load_uai_evidence(path, [2, 2, 3]) == {0: 1, 2: 2}
    path = write(tmp_path, "b.evid", "/* one\n two */\n1 0 x")
    with pytest.raises(ValueError, match="line 3: "):
        load_uai_evidence(path, [2, 2, 3])


def test_infeasible_constants(tmp_path):
    """A constant that forbids everything is a graph without a labeling."""
    for load, text in (
        (load_uai, "MARKOV 1 2 2 0 1 0 1 0.0 2 1 1"),
        (load_wcsp, "x 1 2 1 9 2 0 9 0"),
        (
            load_cfn,
            "{problem:{mustbe:<9} variables:{x:2} functions:{{scope:[] costs:[9]}}}",
        ),
    ):
        graph = load(write(tmp_path, "a.uai", text))
        assert graph.offset == -np.inf
        assert graph.score([0]) == -np.inf
        result = Auto().solve(graph)
        assert result.status == "infeasible"
        assert result.bound == -np.inf


# ---- Ergo ----


def test_ergo(tmp_path):
    graph = load_ergo(write(tmp_path, "a.erg", ERGO))
    assert graph.score([0, 1, 2]) == pytest.approx(np.log(0.436 * 0.872 * 0.189))
    assert graph.score([1, 1, 1]) == -np.inf
    # parents from 1 on: no variable is its own parent
    text = ERGO.replace("1 1\n\n", "1 2\n\n").replace("\n1 0\n", "\n1 1\n")
    again = load_ergo(write(tmp_path, "b.erg", text))
    assert again.score([0, 1, 2]) == graph.score([0, 1, 2])
    path = write(tmp_path, "a.evid", "/* Evidence */\n1\n0 1\n")
    observed = load_ergo(tmp_path / "a.erg", evidence=path)
    assert observed.evidence.tolist() == [1, -1, -1]


@pytest.mark.parametrize(
    "text, message",
    [
        (ERGO.replace("Prob", "prob"), "has no section"),
        (ERGO.replace("2 2 3", "2 2 x"), "line 2: .*'x'"),
        (ERGO.replace("\n1 1\n", "\n1 7\n"), r"line 5: a parent of variable 2"),
        (ERGO.replace("\n1 1\n", "\n1 2\n"), "counted from 0 or from 1"),
        (ERGO.replace("\n1 0\n", "\n2 0 0\n"), "a parent twice"),
        (ERGO.replace("\n4\n", "\n5\n"), "line 10: .* has 4 entries, not 5"),
        (ERGO.replace("0.920", "-0.9"), "negative"),
        (ERGO.replace("0.000 0.189", ""), "the file ends|too many"),
        (ERGO.replace("0.189", "0.189 1"), "line 15: there is more"),
        ("9 9 9 9 9 9 9 9 9 9 0 0 0 0 0 0 0 0 8 0 1 2 3 4 5 6 7 /* Probabilities */ 1",
         "at most 11 more numbers"),
    ],
)  # fmt: skip
def test_ergo_errors(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load_ergo(write(tmp_path, "a.erg", text))


# ---- CFN ----


def test_cfn(tmp_path):
    graph = load_cfn(write(tmp_path, "a.cfn", CFN))
    labelings, scores = enumerate_labelings(graph)
    table = np.full((2, 3), np.inf)
    table[0, 0], table[1, 1], table[1, 2] = 0.5, 2.25, 0.125
    other = np.array([[0.1, 0.2, 0.3], [1, 0, 0], [-0.7, 0.8, np.inf]])
    for (a, b, c), score in zip(labelings, scores, strict=True):
        cost = 0.5 + [1.25, 0.75][a] + table[a, b] + other[b, c]
        assert score == pytest.approx(-cost)


def test_cfn_without_quotes_and_commas(tmp_path):
    light = CFN.replace('"', "").replace(",", " ").replace("<12.100", '"<12.100"')
    light = light.replace("fA:", "").replace("fBC:", "")
    graph = load_cfn(write(tmp_path, "a.cfn", CFN))
    again = load_cfn(write(tmp_path, "b.cfn", light))
    for x in enumerate_labelings(graph)[0]:
        assert again.score(x) == graph.score(x)
    # maximized: scores are the costs, and what does not exceed the bound is forbidden
    text = "{problem:{mustbe:>-3.5} variables:{x:2 y:2} "
    text += "functions:{{scope:[x y] costs:[1 2 -3.5 inf]}}}"
    with pytest.raises(ValueError, match="cost whose score is infinite"):
        load_cfn(write(tmp_path, "c.cfn", text))
    graph = load_cfn(write(tmp_path, "c.cfn", text.replace("inf", "-2")))
    assert [graph.score(x) for x in ([0, 0], [0, 1], [1, 0], [1, 1])] == [
        1,
        2,
        -np.inf,
        -2,
    ]


@pytest.mark.parametrize(
    "mustbe, best",
    [
        ("<0.0", -4), ("<5.000000", -4), ("<-4.5", None), ("<-4.0", None),
        ("<-3.9", -4), ("<5", -4), (">0.0", None), (">-7.0", 0), (">-0.1", 0),
        ("<inf", -4), (">-inf", 0),
    ],
)  # fmt: skip
def test_cfn_bounds_the_total(tmp_path, mustbe, best):
    """Costs below zero make up for those above; toulbar2 1.4 finds the same."""
    text = f'''{{problem: {{mustbe: "{mustbe}"}} variables: {{a: 2 b: 2}} functions: {{
        {{scope: [a] costs: [0, -5]}} {{scope: [a b] costs: [0 0 1 2]}}}}}}'''
    graph = load_cfn(write(tmp_path, "a.cfn", text))
    sign = 1 if ">" in mustbe else -1
    for name in ("auto", "highs", "branch_and_bound", "trws"):
        result = MAP_SOLVERS[name]().solve(graph, random_state=0)
        if best is None:
            assert (result.status, result.score) == ("infeasible", -np.inf)
        else:
            assert (result.status, result.score) == ("optimal", sign * best)


def test_cfn_bound_is_one_of_decimals(tmp_path):
    """0.1 + 0.2 is not below 0.3, though the sum of floats is not above it, either."""
    text = "{problem: {mustbe: <%s} variables: {a: 2 b: 2} functions: {"
    text += "{scope: [a] costs: [0.1 0.7]} {scope: [b] costs: [0.2 -0.7]}}}"
    for bound in (0.3, 0.0, 0.30001, -0.6, -0.59999, 0.9, 1.0):
        graph = load_cfn(write(tmp_path, "a.cfn", text % bound))
        finite = [graph.score(x) > -np.inf for x in enumerate_labelings(graph)[0]]
        costs = [round(a + b, 5) for a in (0.1, 0.7) for b in (0.2, -0.7)]
        assert finite == [cost < bound for cost in costs]


@pytest.mark.parametrize(
    "text, message",
    [
        (CFN.replace("<12.100", "12"), "mustbe must be like"),
        (CFN.replace("<12.100", "<=12"), "mustbe must be like"),
        (CFN.replace("0.75]", "0.75, 1]"), "'fA' needs 2 costs, got 3"),
        (CFN.replace("0.75]", "true]"), "'fA' has the cost True"),
        (CFN.replace("0.75]", "x]"), "line 6: cost .* 'fA' has the cost 'x'"),
        (CFN.replace("0.75]", "29-1]"), "line 6: .* 'fA' has the cost '29-1', which"),
        (CFN.replace('"B", 2]', '"B", 7]'), "'fBC' has the variable 7"),
        (CFN.replace('"B", 2]', '"B", 1]'), "'fBC' must be at most 64 different"),
        (CFN.replace('"b", 2, 0', '"c", 2, 0'), "'fAB' has the state 'c'"),
        (CFN.replace('"b", 2, 0', '"b", 1, 0'), r"'fAB' has the tuple .* twice"),
        (CFN.replace('"b", 2, 0', '"b", 0'), "'fAB' .* must list 2 states and a cost"),
        (CFN.replace('"B": 3', '"B": -3'), "variable 'B' must have"),
        (CFN.replace('"B": 3', '"A": 3'), "all names must differ, got"),
        (CFN.replace('"k": {', '"k": {"type": "salldiff", '), "of type 'salldiff'"),
        (CFN.replace('"B": 3', '"B": 999999999'), "999999999|too many|states"),
        (CFN[:-20], "line [0-9]+: the file ends"),
        (CFN + "}", "expected the end of the file"),
        ("[1]", "the file must be an object"),
        ('{"a": 1}', "functions, got 'a'"),
        ("{" * 20, "more than 8 deep"),
    ],
)
def test_cfn_errors(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load_cfn(write(tmp_path, "a.cfn", text))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cfn", "erg", "words"])
def test_broken_files(tmp_path, kind):
    """Mutations: a clear error or a graph, and never much memory."""
    rng = np.random.default_rng(0)
    text = {"cfn": CFN, "erg": ERGO, "words": KEYWORDS_TEXT}[kind].encode()
    load = {"cfn": load_cfn, "erg": load_ergo, "words": load_wcsp}[kind]
    valid = 0
    tracemalloc.start()
    for _ in range(400):
        data = text
        for _ in range(rng.integers(1, 4)):
            k = int(rng.integers(len(data)))
            piece = [
                b"",
                b"0",
                b"9",
                b"-",
                b" ",
                b'"',
                b"]",
                b"}",
                b"1e308",
                b"99999999",
            ]
            data = data[:k] + piece[rng.integers(10)] + data[k + int(rng.integers(3)) :]
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        try:
            graph = load(write(tmp_path, "a", data))
        except ValueError as error:
            assert str(error)
        else:
            valid += 1
            graph.score(np.zeros(graph.n_variables, dtype=int))
        # what may be written out at most: a million entries, and a copy
        assert tracemalloc.get_traced_memory()[1] - before < 30_000_000
    tracemalloc.stop()
    assert 10 < valid < 390


# ---- WCSP by keywords ----

KEYWORDS_TEXT = """k 3 3 4 100
3 3 3
3 0 1 2 -1 salldiff var 10
2 0 1 -1 >= 1 2
3 0 1 2 -1 knapsackp 5 1 2 3 2 1 1 2 2 1 0 4
3 0 1 2 -1 wregular 2 1 0 0 2 0 0 1 3 4 0 0 0 0 0 1 1 1 1 0 1 2 1 1 1 4
"""


def hard(holds):
    return 0 if holds else np.inf


def excess(value, delta):
    return max(value, 0) if value <= delta else np.inf


def automaton(x):
    """The cheapest path of the automaton above; state 1 is final at a cost of 3."""
    steps = {(0, 0): (0, 0), (0, 1): (1, 1), (1, 0): (1, 2), (1, 1): (1, 4)}
    state, total = 0, 0
    for value in x:
        if (state, value) not in steps:
            return np.inf
        state, cost = steps[state, value]
        total += cost
    return total + 3 * state


@pytest.mark.parametrize(
    "line, sizes, cost",
    [
        ("2 0 1 -1 >= 1 2", (4, 4), lambda x, y: excess(y + 1 - x, 2)),
        ("2 0 1 -1 > 1 2", (4, 4), lambda x, y: excess(y + 2 - x, 2)),
        ("2 0 1 -1 <= -1 2", (4, 3), lambda x, y: excess(x + 1 - y, 2)),
        ("2 0 1 -1 < -1 1", (4, 4), lambda x, y: excess(x + 2 - y, 1)),
        ("2 0 1 -1 = 1 2", (4, 4), lambda x, y: excess(abs(y + 1 - x), 2)),
        ("2 0 1 -1 disj 2 1 7", (4, 4), lambda x, y:
         7 * (x < y + 1 and y < x + 2)),
        ("2 0 1 -1 sdisj 2 1 3 2 4 5", (4, 4), lambda x, y:
         hard(y <= 2 and (x == 3 or y == 2 or x >= y + 1 or y >= x + 2))
         + 4 * (x == 3) + 5 * (y == 2)),
        ("3 0 1 2 -1 salldiff var 10", (3, 3, 3), lambda *x: 10 * (3 - len(set(x)))),
        ("3 0 1 2 -1 salldiff var 100", (3, 2, 3), lambda *x: hard(len(set(x)) == 3)),
        ("3 0 1 2 -1 salldiff dec 10", (3, 2, 3),
         lambda a, b, c: 10 * ((a == b) + (b == c) + (a == c))),
        ("3 0 1 2 -1 salldiff decbi 200", (3, 2, 3), lambda *x: hard(len(set(x)) == 3)),
        ("3 0 1 2 -1 alldiff 0 0", (3, 2, 3), lambda *x: hard(len(set(x)) == 3)),
        ("3 0 1 2 -1 alldiff 2 1 2 0", (3, 3, 3),
         lambda *x: hard(x.count(0) < 2)),
        ("3 0 1 2 -1 clique 1 1 1 1 2 2 1 0", (3, 3, 3),
         lambda a, b, c: hard((a == 1) + (b == 2) + (c < 2) <= 1)),
        ("3 0 1 2 -1 knapsack 4 2 3 1", (2, 2, 2),
         lambda a, b, c: hard(2 * a + 3 * b + c >= 4)),
        ("3 0 1 2 -1 knapsackp 5 1 2 3 2 1 1 2 2 1 0 4", (3, 3, 3),
         lambda a, b, c: hard(3 * (a == 2) + b + 4 * (c == 0) >= 5)),
        ("3 0 1 2 -1 knapsackv 5 3 0 1 2 1 2 3 2 0 4", (3, 3, 3),
         lambda a, b, c: hard(2 * (a == 1) + 3 * (b == 2) + 4 * (c == 0) >= 5)),
        ("3 0 1 2 -1 wregular 2 1 0 0 2 0 0 1 3 4 0 0 0 0 0 1 1 1 1 0 1 2 1 1 1 4",
         (2, 3, 2), lambda *x: automaton(x)),
    ],
)  # fmt: skip
def test_keywords(tmp_path, line, sizes, cost):
    """Costs of all labelings, which toulbar2 1.4 agrees with."""
    text = f"k {len(sizes)} 4 1 100\n{' '.join(map(str, sizes))}\n{line}\n"
    graph = load_wcsp(write(tmp_path, "a.wcsp", text))
    for x in enumerate_labelings(graph)[0]:
        assert graph.score(x) == -cost(*x.tolist())


@pytest.mark.parametrize(
    "line, message",
    [
        ("3 0 1 2 -1 >= 1 2", "line 3: '>=' must have 2 variables, got 3"),
        ("2 0 1 -1 salldiff all 2", "must be var, dec or decbi"),
        ("2 0 1 -1 knapsack 3 1 1", "2 states, variable 1 has 3"),
        ("2 0 1 -1 knapsackv 3 1 2 0 1", "variable 2 is not in the scope"),
        ("2 0 1 -1 clique 2 0 0", "at most 1 variable"),
        ("2 0 1 -1 wregular 2 1 0 0 1 0 0 1 5 0 0 0", "beyond its 2 states"),
        ("2 0 1 -1 wregular 2 1 0 0 1 0 0 9999 5", "at most 2 more tokens"),
        ("2 0 1 -1 wregular 9999 0 0 0\n" * 30 + "0 1 0", "too many for the file"),
        ("0 -1 salldiff var 1", "no variables"),
        ("2 0 1 -1 alldiff 0 1 0 0 7", "line 3: alldiff with moved costs"),
        ("3 0 1 2-1 alldiff 0 0", "line 3: .* must be an integer, got '2-1'"),
        ("2 0 1 -1 wsum hard 1000 == 2", "'wsum' are not supported"),
    ],
)  # fmt: skip
def test_keyword_errors(tmp_path, line, message):
    text = f"k 3 3 {1 + line.count(chr(10))} 100\n2 3 3\n{line}\n"
    with pytest.raises(ValueError, match=message):
        load_wcsp(write(tmp_path, "a.wcsp", text))
