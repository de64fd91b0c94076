"""Files of factor graphs: real ones, round trips, and thousands of broken ones."""

import gzip
import json
import tracemalloc
from itertools import product

import numpy as np
import pytest
from map_graphs import enumerate_labelings, random_graph

from sksstruct.datasets import (
    dump_fg,
    dump_uai,
    dump_uai_evidence,
    dump_uai_solution,
    dump_wcsp,
    load_fg,
    load_uai,
    load_uai_evidence,
    load_uai_solution,
    load_wcsp,
)
from sksstruct.factor_graphs import FactorGraph, Logic

UAI = """MARKOV
3
2 2 3
3
1 0
2 0 1
2 1 2

2
 0.436 0.564

4
 0.128 0.872
 0.920 0.0

6
 0.210 0.333 0.457
 0.811 0.000 1.5e-1
"""
WCSP = """small 3 3 4 20
2 3 2
2 0 1 0 2
0 0 5
1 2 20
-2 1 0 3 1
2 1 0
1 2 1 1
0 4
0 2 0
"""
FG = """4
5
0.5
-1.0
2
.25
XOR 3 1 2 -3
ATMOSTONE 2 1 4
OROUT 3 1 2 3
OR 2 -1 4
PAIR 2 1 3 -0.75
"""


def write(folder, name, text):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_uai(tmp_path):
    graph = load_uai(write(tmp_path, "a.uai", UAI))
    assert graph.n_states.tolist() == [2, 2, 3]
    assert graph.score([0, 1, 2]) == pytest.approx(np.log(0.436 * 0.872 * 0.15))
    assert graph.score([1, 1, 0]) == -np.inf
    packed = tmp_path / "b.uai.gz"
    packed.write_bytes(gzip.compress(UAI.encode()))
    assert load_uai(packed).score([0, 1, 2]) == graph.score([0, 1, 2])


@pytest.mark.slow
@pytest.mark.parametrize("log", [False, True])
def test_uai_round_trip(tmp_path, log):
    for seed in range(5):
        graph = random_graph(
            np.random.default_rng(seed), weights=seed % 2, infinite=0.1, factors=2,
            parametric=True,
        )  # fmt: skip
        path = tmp_path / ("a.LG.gz" if log else "a.uai")
        dump_uai(graph, path, log=log)
        labelings, scores = enumerate_labelings(graph)
        again = load_uai(path)
        np.testing.assert_allclose(
            [again.score(x) for x in labelings], scores, atol=1e-9
        )


def test_evidence_and_solutions(tmp_path):
    sizes = [2, 2, 3]
    for text in ("1\n2 0 1 2 2", "2\n0 1\n2 2", "2 0 1 2 2\n"):
        path = write(tmp_path, "a.evid", text)
        assert load_uai_evidence(path, sizes) == {0: 1, 2: 2}
    for text in ("0", "1 0", ""):
        assert load_uai_evidence(write(tmp_path, "a.evid", text), sizes) == {}
    dump_uai_evidence({2: 1}, tmp_path / "b.evid")
    graph = load_uai(write(tmp_path, "a.uai", UAI), evidence=tmp_path / "b.evid")
    assert graph.evidence.tolist() == [-1, -1, 1]
    dump_uai_solution([1, 0, 2], tmp_path / "a.MPE")
    assert load_uai_solution(tmp_path / "a.MPE", sizes).tolist() == [1, 0, 2]
    for text in ("MAP\n3 1 0 2", "MPE\n1\n3 0 0 0\n-BEGIN-\n1\n3 1 0 2\n"):
        path = write(tmp_path, "b.MPE", text)
        assert load_uai_solution(path, sizes).tolist() == [1, 0, 2]


def test_wcsp(tmp_path):
    graph = load_wcsp(write(tmp_path, "a.wcsp", WCSP))
    # 2 + table of (0, 1) + table of (1, 0) + unary of 2
    assert graph.score([0, 0, 1]) == -(2 + 5 + 3 + 1)
    assert graph.score([1, 2, 0]) == -np.inf
    assert graph.score([1, 2, 1]) == -np.inf
    assert graph.score([0, 2, 0]) == -(2 + 0 + 3 + 4)
    again = tmp_path / "b.wcsp.gz"
    dump_wcsp(graph, again)
    labelings, scores = enumerate_labelings(graph)
    found = [load_wcsp(again).score(x) for x in labelings]
    np.testing.assert_array_equal(found, scores)


def test_wcsp_total_below_top(tmp_path):
    """No cost reaches the top, but some sums do: forbidden, and so in a round trip."""
    text = "t 3 2 3 9\n2 2 2\n-2 0 1 4 1\n0 0 5\n2 1 2 0 -1\n1 2 0 1\n1 3\n"
    graph = load_wcsp(write(tmp_path, "a.wcsp", text))
    allowed = {x: graph.score(x) for x in product(range(2), repeat=3)}
    assert allowed == {
        x: -8 if x[0] + x[1] and x[1] + x[2] and not x[2] else -np.inf for x in allowed
    }
    dump_wcsp(graph, tmp_path / "b.wcsp")
    again = load_wcsp(tmp_path / "b.wcsp")
    assert allowed == {x: again.score(x) for x in allowed}
    for dump in (dump_uai, dump_fg):
        with pytest.raises(ValueError, match=r"must not have must_exceed, got -8\.5"):
            dump(graph, tmp_path / "c")
    with pytest.raises(ValueError, match="top = 20 must be positive, and 9"):
        dump_wcsp(graph, tmp_path / "c", top=20)
    # out of reach: no bound on the total
    graph = load_wcsp(write(tmp_path, "a.wcsp", text.replace(" 9", " 14")))
    assert graph.score([0, 0, 1]) == -12
    assert graph.must_exceed == -np.inf


def test_shared_cost_functions(tmp_path):
    text = "s 3 2 2 9\n2 2 2\n-2 0 1 0 1\n1 1 4\n2 1 2 0 -1\n"
    graph = load_wcsp(write(tmp_path, "a.wcsp", text))
    assert len(graph.tables) == 1
    assert graph.score([1, 1, 1]) == -8


def test_fg(tmp_path):
    path = write(tmp_path, "a.fg", FG)
    graph = load_fg(path)
    labelings, scores = enumerate_labelings(graph)
    for x, score in zip(labelings, scores, strict=True):
        a, b, c, d = (bool(k) for k in x)
        holds = (a + b + (not c) == 1) and not (a and d) and (a or b) == c
        holds = holds and (not a or d)
        expected = 0.5 * a - b + 2 * c + 0.25 * d - 0.75 * (a and c)
        assert score == pytest.approx(expected if holds else -np.inf)
    big = FactorGraph(
        [[0.0, k - 1.5] for k in range(4)], [(0, 1)], [[[0.0, 0.0], [0.0, 0.5]]],
        factors=[(range(4), Logic("xor", 4, [False, True, False, False]))],
    )  # fmt: skip
    dump_fg(big, tmp_path / "b.fg")
    again = load_fg(tmp_path / "b.fg")
    for x in enumerate_labelings(big)[0]:
        assert again.score(x) == big.score(x)
    assert (
        load_fg(write(tmp_path, "c.fg", FG + "x\n"), trailing="ignore").n_variables == 4
    )


@pytest.mark.parametrize(
    "load, text, message",
    [
        (load_uai, "", "line 1: the file ends where MARKOV"),
        (load_uai, "MRF\n1\n", "line 1: MARKOV or BAYES"),
        (
            load_uai,
            UAI.replace("2 2 3", "2 2.0 3"),
            "line 3: the number of states of a variable",
        ),
        (load_uai, UAI.replace("2 2 3", "2 0 3"), r"line 3: .* in \[1, "),
        (load_uai, UAI.replace("2 1 2", "2 1 1"), "line 7: factor 2 names a variable"),
        (load_uai, UAI.replace("2 1 2", "2 1 9"), r"line 7: .*\[0, 2\], got 9"),
        (load_uai, UAI.replace("\n6\n", "\n5\n"), "line 16: .* 6 entries, not 5"),
        (
            load_uai,
            UAI.replace("0.920", "nan"),
            "line 14: .* must be numbers, got 'nan'",
        ),
        (load_uai, UAI.replace("0.920", "-0.9"), "negative potential"),
        (load_uai, UAI.replace("0.920", "1e999"), "line 14: .* too large"),
        (load_uai, UAI.replace("0.920", "1_0"), "line 14: .* got '1_0'"),
        (load_uai, UAI + "7\n", "line 19: there is more"),
        (load_uai, UAI[:-12], "the file ends|too short|do not fit"),
        (load_uai, "MARKOV 1 999999999999 0", "states of a variable must be"),
        (load_uai, "MARKOV 99999999999 2 2", r"number of variables must be in"),
        (load_uai, "MARKOV 2 99999 99999 1 2 0 1 9999800001 1 1", "do not fit"),
        (load_uai, "BAYES 1 2 2 1 0 1 0 2 1 1 2 1 1", "one factor for each"),
        (load_uai, "BAYES 2 2 2 2 1 0 1 0 2 1 1 2 1 1", "must be the last"),
        (load_wcsp, WCSP.replace("20\n2 3 2", "20\n2 -3 2"), "interval domains"),
        (
            load_wcsp,
            WCSP.replace("20\n2 3 2", "20\n2 4 2"),
            "must have at most 3 states",
        ),
        (load_wcsp, WCSP.replace("0 2 0", "0 -2 0"), "default cost of function 3"),
        (
            load_wcsp,
            WCSP.replace("2 1 0\n1", "2 1 -4\n1"),
            "line 7: a cost of function",
        ),
        (load_wcsp, WCSP.replace("1 2 20", "0 0 20"), "line 5: .* a tuple twice"),
        (load_wcsp, WCSP.replace("0 2 0\n", "2 0 1 -1 sgcc var 3\n"), "'sgcc' are not"),
        (
            load_wcsp,
            "s 2 2 1 9\n2 2\n2 0 1 0 -1\n",
            "shared cost function 1 is not among",
        ),
        (
            load_wcsp,
            "s 9 9 1 9\n9 9 9 9 9 9 9 9 9\n9 0 1 2 3 4 5 6 7 8 0 0",
            "too many",
        ),
        (
            load_fg,
            FG.replace("XOR", "ARBORESCENCE"),
            "line 7: factor 1 must be .* got ARBORESCENCE",
        ),
        (load_fg, FG.replace("-3\n", "-3 1\n"), "line 7: factor 2 must be .* got 1"),
        (load_fg, FG.replace("1 3 -0.75", "1 -3 -0.75"), "line 11: PAIR needs two"),
        (load_fg, FG.replace("1 2 -3", "1 0 -3"), "line 7: factor 1 must name"),
        (load_fg, FG.replace("1 2 -3", "1 9 -3"), r"line 7: .*\[-4, 4\]"),
        (load_fg, FG.replace(".25", "x"), "line 6: .* must be numbers"),
        (load_fg, FG + "CAR\n", "line 12: expected the end"),
    ],
)
def test_errors_name_the_line(tmp_path, load, text, message):
    with pytest.raises(ValueError, match=message):
        load(write(tmp_path, "a.uai", text))


@pytest.mark.parametrize(
    "text, message",
    [
        ("0 0 1", "observed variables is 0, and so 0 numbers .* there are 2"),
        ("2 0 1", "number of observed variables is 2, and so 4 numbers"),
        ("1 0 5", "observed in state 5"),
        ("1 7 0", "variable 7"),
        ("2 0 1 0 1", "observed twice"),
        ("2 1 0 1 1 0 1 1", "samples must be 0 or 1, got 2"),
        ("1 0 x", "must be an integer"),
    ],
)
def test_evidence_errors(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load_uai_evidence(write(tmp_path, "a.evid", text), [2, 2])


@pytest.mark.parametrize(
    "text, message",
    [
        ("MAR\n2 0 0", "MPE or MAP"),
        ("MPE\n3 0 0 0", "expected a solution of 2 states"),
        ("MPE\n2 0 7", "2 states, got state 7"),
        ("MPE\n2 0 -1", "must be a number"),
    ],
)
def test_solution_errors(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        load_uai_solution(write(tmp_path, "a.MPE", text), [2, 2])


def test_compressed_files(tmp_path):
    with pytest.raises(ValueError, match="truncated or damaged"):
        load_uai(write(tmp_path, "a.uai.gz", UAI))
    cut = gzip.compress(UAI.encode())[:40]
    with pytest.raises(ValueError, match="truncated or damaged"):
        load_uai(write(tmp_path, "b.uai.gz", cut))
    bomb = gzip.compress(b"0" * 50_000_000)
    path = write(tmp_path, "c.uai.gz", bomb)
    tracemalloc.start()
    with pytest.raises(ValueError, match="200 times as many as the file"):
        load_uai(path)
    assert tracemalloc.get_traced_memory()[1] < 4 * (200 * len(bomb) + 2**20)
    tracemalloc.stop()


def mutate(data, rng):
    """A few changed, dropped, doubled or swapped bytes or tokens."""
    tokens = data.split(b" ") if rng.random() < 0.5 else None
    for _ in range(rng.integers(1, 4)):
        if tokens is not None:
            tokens = tokens or [b""]
            k = int(rng.integers(len(tokens)))
            what = rng.integers(5)
            if what == 0:
                tokens[k] = [b"-1", b"99999999999", b"1e308", b"nan", b"", b"0", b"2",
                             b"-0", b"\x00", b"1.5"][rng.integers(10)]  # fmt: skip
            elif what == 1:
                del tokens[k]
            elif what == 2:
                tokens.insert(k, tokens[k])
            elif what == 3:
                tokens = tokens[:k] or [b""]
            else:
                j = int(rng.integers(len(tokens)))
                tokens[k], tokens[j] = tokens[j], tokens[k]
            continue
        k = int(rng.integers(len(data)))
        byte = (
            bytes([rng.integers(256)])
            if rng.random() < 0.3
            else bytes([rng.choice(list(b"0123456789 -.eE\n"))])
        )
        data = data[:k] + byte + data[k + int(rng.integers(2)) :]
    return data if tokens is None else b" ".join(tokens)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["uai", "LG", "wcsp", "fg"])
def test_broken_files(tmp_path, kind):
    """1,600 mutations: a clear error or a graph, and never much memory."""
    rng = np.random.default_rng(0)
    text = {"uai": UAI, "LG": UAI.replace("0.0", "-1.0"), "wcsp": WCSP, "fg": FG}[kind]
    load = {"wcsp": load_wcsp, "fg": load_fg}.get(kind, load_uai)
    path = tmp_path / f"a.{kind}"
    valid = 0
    tracemalloc.start()
    for _ in range(400):
        path.write_bytes(mutate(text.encode(), rng))
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            graph = load(path)
        except ValueError as error:
            assert str(error)
        else:
            valid += 1
            assert graph.offset < np.inf
            graph.score(np.zeros(graph.n_variables, dtype=int))
        # ten times the file, and what any small graph takes
        assert tracemalloc.get_traced_memory()[1] - before < 10 * len(text) + 60_000
    tracemalloc.stop()
    assert 8 < valid < 392


def test_real_files(data_home):
    best = json.load(gzip.open(data_home / "uai" / "map_best.json.gz"))
    small = ["grids/grid10x10.f10", "csp/404.wcsp", "alchemy/smokers_10",
             "promedas/or_chain_111.fg", "pedigree/pedigree9", "dbn/rus_20_40_9_3",
             "protein/pdb1akg", "segmentation/Segmentation_12"]  # fmt: skip
    for name in small:
        path = data_home / "uai" / f"{name}.uai.gz"
        evidence = data_home / "uai" / f"{name}.uai.evid"
        graph = load_uai(path, evidence=evidence if evidence.exists() else None)
        known = best[path.name.removesuffix(".gz")]
        assert graph.score(known["assignment"]) == pytest.approx(known["log_value"])
    graph = load_wcsp(data_home / "uai" / "wcsp" / "404.wcsp.gz")
    assert (graph.n_variables, graph.n_states.max()) == (100, 4)
    folder = data_home / "uai" / "ad3_fg"
    assert load_fg(folder / "srl_fract_001.fg.gz").n_variables == 321
    assert load_fg(folder / "coref.fg.gz").n_factors == 367
    with pytest.raises(ValueError, match="line 774: expected the end"):
        load_fg(folder / "srl_fract_003.fg.gz")
    assert load_fg(folder / "srl_fract_003.fg.gz", trailing="ignore").n_variables == 712


@pytest.mark.parametrize(
    "load, text",
    [
        # sizes that only all tables together cannot have
        (load_uai, "MARKOV 3000 " + "5000 " * 3000 + "3000 "
         + " ".join(f"1 {v}" for v in range(3000)) + " " + "1 " * 5000),
        (load_wcsp, "x 3 2000 1 9 2000 2000 2000 3 0 1 2 1 0 " + " " * 12000),
        (load_wcsp, "x 1 9000 9000 9 9000 -1 0 1 0 " + "1 0 0 -1 " * 8999),
    ],
)  # fmt: skip
def test_hostile_sizes(tmp_path, load, text):
    path = write(tmp_path, "a.wcsp", text)
    tracemalloc.start()
    with pytest.raises(ValueError, match="line 1: "):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 10 * len(text) + 2**20
    tracemalloc.stop()


def test_long_tokens_take_linear_time(tmp_path):
    """A quadratic pattern would take hours here."""
    text = "MARKOV 1 2 1 1 0 2 " + "1" * 400_000 + "x 1"
    with pytest.raises(ValueError, match="must be numbers, got '1111"):
        load_uai(write(tmp_path, "a.uai", text))


def test_memory_of_many_small_tables(tmp_path):
    n = 4000
    scopes = "\n".join(f"2 {v} {v + 1}" for v in range(n - 1))
    rng = np.random.default_rng(0)
    tables = "\n".join(
        "4\n " + " ".join(f"{x:.6f}" for x in rng.random(4)) for _ in range(n - 1)
    )
    text = f"MARKOV\n{n}\n{'2 ' * n}\n{n - 1}\n{scopes}\n{tables}\n"
    path = write(tmp_path, "a.uai", text)
    tracemalloc.start()
    graph = load_uai(path)
    assert graph.n_edges == n - 1
    assert tracemalloc.get_traced_memory()[1] < 10 * len(text) + 2**18
    tracemalloc.stop()


def test_large_costs_keep_their_meaning(tmp_path):
    text = f"x 1 2 1 {10**18}\n2\n1 0 0 2\n0 {10**18 - 1}\n1 {10**18}\n"
    graph = load_wcsp(write(tmp_path, "a.wcsp", text))
    assert np.isfinite(graph.score([0]))
    assert graph.score([1]) == -np.inf
    with pytest.raises(ValueError, match="below 2"):
        dump_wcsp(FactorGraph([[-(2.0**53), 0.0]]), tmp_path / "b.wcsp")
    with pytest.raises(ValueError, match="above all costs"):
        dump_wcsp(FactorGraph([[-7.0, 0.0]]), tmp_path / "b.wcsp", top=5)
    with pytest.raises(ValueError, match="one word"):
        dump_wcsp(FactorGraph([[-7.0, 0.0]]), tmp_path / "b.wcsp", name="my graph")
    with pytest.raises(ValueError, match="use log=True"):
        dump_uai(FactorGraph([[-800.0, 0.0]]), tmp_path / "b.uai")
    assert not (tmp_path / "b.uai").exists()
    with pytest.raises(ValueError, match="offset nor evidence"):
        dump_fg(FactorGraph([[0.0, 1.0]], offset=1.0), tmp_path / "b.fg")
