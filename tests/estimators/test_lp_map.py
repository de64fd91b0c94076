"""The predictor and the command line."""

import gzip
import importlib.util
import json
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from map_graphs import best_score, enumerate_labelings, random_graph
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sksstruct import LPMAPPredictor
from sksstruct.commands import main
from sksstruct.datasets import dump_uai, load_uai, load_uai_solution
from sksstruct.factor_graphs import FactorGraph
from sksstruct.inference.map import (
    MAP_SOLVERS,
    TRWS,
    Auto,
    BeliefPropagation,
    HiGHS,
    Toulbar2,
)
from sksstruct.inference.map.core.run import MAPRun

HAS_TOULBAR2 = importlib.util.find_spec("pytoulbar2") is not None


def graphs(n=5):
    return [random_graph(np.random.default_rng(k), n=6, m=9) for k in range(n)]


@pytest.mark.slow
@pytest.mark.parametrize("solver", [*MAP_SOLVERS, TRWS(), HiGHS(max_iter=1000)])
def test_every_solver_is_reached(solver):
    X = graphs()
    if solver == "toulbar2" and not HAS_TOULBAR2:
        pytest.skip("needs pytoulbar2")
    if solver == "cp_sat":
        pytest.importorskip("ortools")
    if solver == "gdmm_binary":
        X = [random_graph(np.random.default_rng(k), states=(2, 2)) for k in range(5)]
    predictor = LPMAPPredictor(solver, random_state=0).fit(X)
    labelings = predictor.predict(X)
    optima = np.array([best_score(graph) for graph in X])
    scores = [graph.score(x) for graph, x in zip(X, labelings, strict=True)]
    np.testing.assert_allclose(predictor.scores_, scores)
    assert (predictor.scores_ <= optima + 1e-9).all()
    assert (predictor.bounds_ >= optima - 1e-5).all()
    assert len(predictor.status_) == len(predictor.results_) == 5
    for graph, rows in zip(X, predictor.predict_marginals(X), strict=True):
        assert [len(row) for row in rows] == graph.n_states.tolist()
        assert all(row.sum() == pytest.approx(1.0) for row in rows)


@pytest.mark.parametrize("kind", ["bethe", "trw"])
def test_marginals_are_probabilities(kind):
    X = graphs()
    predictor = LPMAPPredictor(marginals=kind, random_state=0, max_iter=500, tol=1e-8)
    found = predictor.fit(X).predict_marginals(X)
    same = LPMAPPredictor(
        marginals=BeliefPropagation(kind, 500, 1e-8), random_state=0, n_jobs=2
    ).predict_marginals(X)
    for graph, rows, twins, result in zip(
        X, found, same, predictor.marginal_results_, strict=True
    ):
        labelings, scores = enumerate_labelings(graph)
        p = np.exp(scores - scores.max())
        if kind == "trw":
            assert result.bound >= np.log(p.sum()) + scores.max() - 1e-9
        p /= p.sum()
        for v, (row, twin) in enumerate(zip(rows, twins, strict=True)):
            np.testing.assert_array_equal(row, twin)
            assert row.sum() == pytest.approx(1.0)
            exact = np.bincount(labelings[:, v], p, minlength=len(row))
            np.testing.assert_allclose(row, exact, atol=0.25)
    assert not hasattr(predictor, "results_")


def test_marginals_warn():
    never = FactorGraph([[0.0, -np.inf]], evidence={0: 1})
    with pytest.warns(ConvergenceWarning, match="graph 0: no labeling"):
        (rows,) = LPMAPPredictor(marginals="trw").predict_marginals([never])
    assert np.isnan(rows[0]).all()
    with pytest.warns(ConvergenceWarning, match="messages still change"):
        LPMAPPredictor(marginals="bethe", max_iter=1).predict_marginals(graphs(1))
    with pytest.raises(ValueError, match="marginals"):
        LPMAPPredictor(marginals="exact").fit()


def hard_graphs(n=3):
    rng = np.random.default_rng(0)
    edges = [(u, v) for v in range(30) for u in range(v)]
    tables = rng.normal(size=(len(edges), 4, 4))
    return [FactorGraph(np.zeros((30, 4)), edges, tables) for _ in range(n)]


def interrupt(graph, iteration, score, bound):
    """What Ctrl-C does, at a moment of the second graph."""
    if graph == 1 and iteration >= 3:
        raise KeyboardInterrupt


@pytest.mark.parametrize("solver", ["trws", "auto", "mplp"])
def test_interrupts_keep_what_was_found(solver):
    X = hard_graphs()
    predictor = LPMAPPredictor(solver, random_state=0, max_iter=5, callback=interrupt)
    if solver == "auto":
        predictor.set_params(solver=Auto(5, effort=0.0))
    with pytest.raises(KeyboardInterrupt), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        predictor.predict(X)
    done, cut, none = predictor.results_
    assert none is None
    assert done.status != "interrupted"
    assert cut.status == "interrupted"
    assert predictor.status_[1:] == ["interrupted", "interrupted"]
    assert predictor.scores_[1] == cut.score == pytest.approx(X[1].score(cut.labeling))
    assert cut.score <= cut.bound < np.inf
    assert predictor.bounds_.tolist()[2] == np.inf


def test_interrupts_stop_all_threads():
    def interrupt_main(*now):
        # in a thread of joblib: what the main thread gets is a KeyboardInterrupt
        raise KeyboardInterrupt

    predictor = LPMAPPredictor(
        TRWS(10**6, 0.0, patience=10**6), n_jobs=2, random_state=0,
        callback=lambda k, *now: interrupt_main() if k == 1 else False,
    )  # fmt: skip
    with pytest.raises(KeyboardInterrupt):
        predictor.predict(hard_graphs(2))
    assert predictor.status_ == ["interrupted", "interrupted"]
    assert [r.status for r in predictor.results_] == ["interrupted", "interrupted"]


def test_an_interrupted_command_writes(tmp_path, monkeypatch, capsys):
    dump_uai(hard_graphs(1)[0], tmp_path / "a.uai")
    report, calls = MAPRun.report, []

    def interrupted(run, **options):
        stop = report(run, **options)
        calls.append(run)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return stop

    monkeypatch.setattr(MAPRun, "report", interrupted)
    assert main(["map", str(tmp_path / "a.uai"), "--json"]) == 130
    shown = json.loads(capsys.readouterr().out)
    assert shown["status"] == "interrupted"
    assert shown["score"] <= shown["bound"]
    written = load_uai_solution(tmp_path / "a.uai.MPE", [4] * 30)
    assert written.tolist() == shown["labeling"]
    assert load_uai(tmp_path / "a.uai").score(written) == pytest.approx(shown["score"])


def test_scores():
    X = graphs()
    predictor = LPMAPPredictor("highs")
    best = predictor.predict(X)
    assert predictor.score(X) == pytest.approx(np.mean([best_score(g) for g in X]))
    assert predictor.score(X, best) == 1.0
    wrong = [x.copy() for x in best]
    v = int(np.argmax(X[0].n_states))
    wrong[0][v] = (wrong[0][v] + 1) % X[0].n_states[v]
    assert predictor.score(X, wrong) == pytest.approx(1 - 1 / 30)
    with pytest.raises(ValueError, match=r"y\[1\] has"):
        predictor.score(X, [best[0], best[1] + 9, *best[2:]])
    with pytest.raises(ValueError, match="graphs of X, got 2"):
        predictor.score(X, best[:2])


def test_results_do_not_depend_on_threads():
    X = [random_graph(np.random.default_rng(k), n=25, m=60) for k in range(6)]
    results = [
        LPMAPPredictor(random_state=1, n_jobs=n_jobs).predict(X)
        for n_jobs in (None, 2, 3)
    ]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_every_graph_has_a_seed_of_its_own():
    class Recorder(TRWS):
        def solve(self, graph, *, random_state=None, **options):
            seeds[id(graph)] = random_state
            return super().solve(graph, random_state=random_state, **options)

    X, runs = graphs(4), []
    for n_jobs in (None, 3):
        seeds = {}
        LPMAPPredictor(Recorder(), random_state=7, n_jobs=n_jobs).predict(X)
        runs.append([seeds[id(graph)] for graph in X])
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 4
    assert all(isinstance(seed, int) for seed in runs[0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_callbacks_and_limits():
    X = [random_graph(np.random.default_rng(k), n=40, m=150) for k in range(2)]
    seen = []
    LPMAPPredictor("trws", callback=lambda *now: seen.append(now)).predict(X)
    assert {now[0] for now in seen} == {0, 1}
    assert all(score <= bound + 1e-9 for _, _, score, bound in seen)
    with pytest.warns(
        ConvergenceWarning, match=r"graph 0: max_iter .* gap is .* tolerance"
    ):
        predictor = LPMAPPredictor("trws", max_iter=2)
        predictor.predict(X)
    assert predictor.status_ == ["max_iter", "max_iter"]
    fast = LPMAPPredictor(
        TRWS(tol=0.0, patience=10**6, max_iter=10**6), max_seconds=0.2
    )
    fast.predict(X[:1])
    assert fast.status_ == ["time_limit"]


def test_scikit_learn_conventions():
    predictor = LPMAPPredictor(TRWS(max_iter=7), tol=1e-3)
    again = clone(predictor)
    assert again.get_params()["solver__max_iter"] == 7
    again.set_params(solver__max_iter=9)
    assert predictor.solver.max_iter == 7
    X = graphs(2)
    fitted = LPMAPPredictor(random_state=0).fit()
    first = fitted.predict(X)
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.scores_, fitted.scores_)
    np.testing.assert_array_equal(restored.predict(X)[0], first[0])
    assert not LPMAPPredictor().__sklearn_tags__().requires_fit


@pytest.mark.parametrize(
    "predictor, X, message",
    [
        (LPMAPPredictor("simplex"), [], "solver must be"),
        (LPMAPPredictor(tol=-1), [], "tol"),
        (LPMAPPredictor(max_seconds=0), [], "max_seconds"),
        (LPMAPPredictor(), FactorGraph([[0]]), "a sequence of factor graphs"),
        (LPMAPPredictor(), [FactorGraph([[0]]), 3], r"X\[1\] must be a FactorGraph"),
    ],
)
def test_bad_input(predictor, X, message):
    with pytest.raises(ValueError, match=message):
        predictor.predict(X)


def test_command_line(tmp_path, capsys):
    graph = random_graph(np.random.default_rng(0), n=6, m=9)
    path = tmp_path / "graph.uai.gz"
    dump_uai(graph, path)
    assert main(["map", str(path)]) == 0
    shown = capsys.readouterr().out
    # a line for each field, and nothing else
    fields = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert fields["status"] == "optimal"
    assert float(fields["score"]) == pytest.approx(best_score(graph))
    labeling = load_uai_solution(tmp_path / "graph.uai.MPE", graph.n_states)
    assert graph.score(labeling) == pytest.approx(float(fields["score"]), rel=1e-14)
    # evidence beside the file is read
    (tmp_path / "graph.uai.evid").write_text("1\n1 2 0")
    assert main(["map", str(path), "--output", str(tmp_path / "b")]) == 0
    assert load_uai_solution(tmp_path / "b", graph.n_states)[2] == 0
    assert main(["map", str(tmp_path / "none.uai")]) == 2
    assert "error" in capsys.readouterr().err
    path.write_bytes(gzip.compress(b"MARKOV\n1\n2\n1\n1 0\n2\n0 0"))
    assert main(["map", str(path), "--evidence", str(tmp_path / "e")]) == 2


def test_command_line_json(tmp_path, capsys):
    path = tmp_path / "a.wcsp"
    path.write_text("s 2 2 2 9\n2 2\n2 0 1 0 1\n0 0 3\n0 4 0\n")
    arguments = ["map", str(path), "--json", "--solver", "trws", "--seed", "1", "-v"]
    assert main(arguments) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert (found["status"], found["score"], found["solver"]) == ("optimal", -4, "TRWS")
    assert found["written"] == f"{path}.MPE"
    assert "read in" in shown.err
    # infeasible: no numbers, no labeling, and no file
    path.write_text("s 1 2 1 9\n2\n0 9 0\n")
    (tmp_path / "a.wcsp.MPE").unlink()
    assert main(["map", str(path), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "infeasible"
    assert found["score"] is found["bound"] is found["labeling"] is None
    assert not (tmp_path / "a.wcsp.MPE").exists()
    # a limit that is over at the first check
    arguments = ["--solver", "trws", "--max-seconds", "1e-9", "--json"]
    dump_uai(random_graph(np.random.default_rng(0), n=6, m=9), tmp_path / "b.uai")
    main(["map", str(tmp_path / "b.uai"), *arguments])
    assert json.loads(capsys.readouterr().out)["status"] == "time_limit"
    # what was found is shown even if it cannot be written
    path.write_text("s 1 2 0 9\n2\n")
    assert main(["map", str(path), "--output", str(tmp_path / "no" / "file")]) == 2
    assert "optimal" in capsys.readouterr().out


def test_progress_is_short(capsys):
    """At first, at last, and at growing intervals."""
    graph = random_graph(np.random.default_rng(0), n=60, m=200, states=(3, 5))
    TRWS(max_iter=400, patience=400).solve(graph, verbose=1, random_state=0)
    short = capsys.readouterr().out.splitlines()
    TRWS(max_iter=30).solve(graph, verbose=2, random_state=0)
    assert len(capsys.readouterr().out.splitlines()) == 30
    assert 2 <= len(short) <= 30
    assert "np." not in "".join(short)


def test_numbers_are_plain():
    predictor = LPMAPPredictor(random_state=0)
    predictor.predict([FactorGraph([[-10310.0, -10311.0]])])
    result = predictor.results_[0]
    assert repr(result.score) == repr(result.bound) == "-10310.0"


def test_toulbar2_is_asked_for(monkeypatch):
    """An error that says what to install, before any work."""
    monkeypatch.setitem(sys.modules, "pytoulbar2", None)
    with pytest.raises(ImportError, match=r"pip install 'sksstruct\[toulbar2\]'"):
        LPMAPPredictor("toulbar2").fit()


@pytest.mark.skipif(not HAS_TOULBAR2, reason="needs pytoulbar2")
@pytest.mark.parametrize("seed", range(8))
def test_toulbar2(seed):
    graph = random_graph(
        np.random.default_rng(seed), n=6, m=8, weights=seed % 3 == 0,
        infinite=0.1 * (seed % 3), integers=seed % 2, parametric=seed % 5 == 0,
        factors=seed % 4, logic=2 * (seed == 7), evidence=seed % 3,
    )  # fmt: skip
    result = Toulbar2().solve(graph, random_state=0)
    best = best_score(graph)
    if best == -np.inf:
        assert result.status == "infeasible"
    else:
        assert result.status == "optimal"
        assert result.score == pytest.approx(best)
        assert best - 1e-9 <= result.bound <= best + 1e-6 * max(1.0, abs(best))


@pytest.mark.slow
@pytest.mark.skipif(not HAS_TOULBAR2, reason="needs pytoulbar2")
def test_toulbar2_returns_what_it_has():
    rng = np.random.default_rng(0)
    edges = [tuple(rng.choice(60, 2, replace=False)) for _ in range(400)]
    graph = FactorGraph(np.zeros((60, 5)), edges, list(rng.random((400, 5, 5))))
    result = Toulbar2().solve(graph, max_seconds=2.0, random_state=0)
    assert result.status == "time_limit"
    # far above the labeling that it starts from, and below the sum of all maxima
    assert result.score > graph.score(np.zeros(60, dtype=int)) + 20
    assert result.score < result.bound < 400
    assert result.trace["seconds"][-1] < 10.0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="other systems cannot")
def test_the_process_of_toulbar2_ends_with_its_parent():
    child = (
        "from sksstruct.inference.map import _toulbar2_process as process\n"
        "import time; process.end_with_parent(); print('ready', flush=True)\n"
        "time.sleep(20); print('alive')"
    )
    parent = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "time.sleep(300)"
    )
    run = [sys.executable, "-c", parent]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.kill()
        # the pipe closes when the last process that holds it has ended
        assert process.stdout.read() == ""


def test_the_limit_counts_from_the_start_of_the_process(tmp_path):
    rng = np.random.default_rng(0)
    dump_uai(random_graph(rng, n=300, m=1500, states=(3, 5)), tmp_path / "a.uai")
    code = (
        "import sys, time\ntime.sleep(0.4)\nfrom sksstruct.commands import main\nmain()"
    )
    shown = {}
    for limit in (0.2, 1.2):
        arguments = ["map", str(tmp_path / "a.uai"), "--max-seconds", str(limit)]
        run = [sys.executable, "-c", code, *arguments, "--json"]
        done = subprocess.run(run, capture_output=True, text=True, check=True)
        shown[limit] = json.loads(done.stdout)
    # the limit has passed, or less of it is left than half a second and the wait
    assert shown[0.2]["seconds"] < 0.2
    assert shown[1.2]["seconds"] < 1.0
    assert all(found["status"] == "time_limit" for found in shown.values())


@pytest.mark.slow
def test_module_runs(tmp_path):
    path = tmp_path / "a.wcsp"
    path.write_text("s 2 2 1 9\n2 2\n2 0 1 0 1\n0 0 3\n")
    run = [sys.executable, "-m", "sksstruct", "map", str(path)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "optimal" in done.stdout


PAIRWISE = {
    "segmentation/Segmentation_11": 60,
    "segmentation/Segmentation_15": 90,
    "segmentation/10_14_s.binary": 60,
    "image_alignment/ImageAlignment_12": 30,
    "protein/pdb1acf": 60,
    "protein/pdb1i24": 200,
    "grids/grid10x10.f10": 10,
    "dbn/rbm_ferro_22": 40,
    "csp/GEOM30a_3": 10,
}


@pytest.mark.parametrize("name", PAIRWISE)
def test_real_instances_are_proved(data_home, name):
    best = json.load(gzip.open(data_home / "uai" / "map_best.json.gz"))
    graph = load_uai(data_home / "uai" / f"{name}.uai.gz")
    predictor = LPMAPPredictor(random_state=0, max_iter=PAIRWISE[name])
    predictor.predict([graph])
    value = best[name.split("/")[1] + ".uai"]["log_value"]
    assert predictor.status_ == ["optimal"]
    assert predictor.scores_[0] == pytest.approx(value, rel=2e-6)
    assert predictor.bounds_[0] >= value - 1e-6 * abs(value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["csp/29.wcsp", "protein/pdb1aho", "grids/grid10x10.f2.wrap"]
)
def test_real_instances_are_found(data_home, name):
    """The labelings are the best known, and the bounds are not below them."""
    best = json.load(gzip.open(data_home / "uai" / "map_best.json.gz"))
    graph = load_uai(data_home / "uai" / f"{name}.uai.gz")
    predictor = LPMAPPredictor(random_state=0)
    predictor.predict([graph])
    value = best[name.split("/")[1] + ".uai"]["log_value"]
    assert predictor.scores_[0] == pytest.approx(value, rel=1e-6)
    assert predictor.bounds_[0] >= value - 1e-6 * abs(value)
