"""Oracles against C loops, PyMaxflow and scipy."""

import ctypes
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from _common import arguments, table
from scipy.optimize import linear_sum_assignment
from sklearn.linear_model import LogisticRegression

from sksstruct.datasets._fetch import get_data_home
from sksstruct.inference import (
    MinCut,
    batch,
    best_boxes,
    bmmf,
    matching,
    matching_max_marginals,
    max_marginals,
    max_product,
    max_product_topk,
    min_cut,
    parts_max_product,
    viterbi,
)
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._posterior import write_marginals
from sksstruct.utils._layout import aligned_zeros
from sksstruct.utils.packed import PackedSequences

import numpy as np  # isort: skip

args = arguments(__doc__)

# What a C programmer would write for one chain after the other, and let the compiler
# turn into vectors: rows padded to whole ones, maxima only on the way forward.
C_LOOP = """
void viterbi(long chains, long T, long K, long ld, const REAL *unary,
             const REAL *table, REAL *delta, int *labels)
{
    for (long c = 0; c < chains; c++, unary += T * ld, labels += T) {
        for (long b = 0; b < ld; b++) delta[b] = unary[b];
        for (long t = 1; t < T; t++) {
            const REAL *prev = delta + (t - 1) * ld;
            REAL *next = delta + t * ld;
            for (long b = 0; b < ld; b++) next[b] = prev[0] + table[b];
            for (long a = 1; a < K; a++)
                for (long b = 0; b < ld; b++) {
                    REAL x = prev[a] + table[a * ld + b];
                    next[b] = x > next[b] ? x : next[b];
                }
            for (long b = 0; b < ld; b++) next[b] += unary[t * ld + b];
        }
        long best = 0;
        for (long b = 1; b < K; b++)
            if (delta[(T - 1) * ld + b] > delta[(T - 1) * ld + best]) best = b;
        labels[T - 1] = best;
        for (long t = T - 2; t >= 0; t--) {
            long from = 0;
            for (long a = 1; a < K; a++)
                if (delta[t * ld + a] + table[a * ld + best]
                    > delta[t * ld + from] + table[from * ld + best]) from = a;
            labels[t] = best = from;
        }
    }
}
"""


def best_of(functions, repeat=15):
    """Least CPU seconds of each of some functions, called in turns."""
    seconds = [np.inf] * len(functions)
    for _ in range(repeat):
        for k, function in enumerate(functions):
            start = time.process_time()
            function()
            seconds[k] = min(seconds[k], time.process_time() - start)
    return seconds


def c_loop(folder, real, sizes, arrays):
    """The loop above for one kind of number, bound to its arguments."""
    source, library = folder / f"{real}.c", folder / f"{real}.so"
    if not library.exists():
        source.write_text(C_LOOP)
        flags = ["-O3", "-march=native", "-ffast-math", "-shared", "-fPIC"]
        command = ["cc", *flags, f"-DREAL={real}", str(source), "-o", str(library)]
        subprocess.run(command, check=True)
    function = ctypes.CDLL(str(library)).viterbi
    values = [ctypes.c_long(size) for size in sizes]
    values += [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]
    return lambda: function(*values)


def chains(folder):
    """Viterbi, K best and sum-product over many chains in one compiled loop."""
    T = 25
    rows = []
    for K in (5, 22, 128):
        n = 40_000 // (K * 4)
        rng = np.random.RandomState(0)
        # one feature: the potentials cost next to nothing beside the decoding
        x = rng.normal(size=(n * T, 1))
        model = BoundChain(PackedSequences(x, np.arange(n + 1) * T), K)
        ld = model.ld
        emission = aligned_zeros(ld).reshape(1, ld)
        tail = aligned_zeros((3 + K) * ld).reshape(-1, ld)
        emission[0, :K] = rng.normal(size=K)
        tail[:, :K] = rng.normal(size=(3 + K, K))
        workspace = model.workspace_of_rows(emission, tail)
        codes, scores = np.empty(n * T, dtype=np.int32), np.empty(n)
        best = np.empty(5 * n * T, dtype=np.int32)
        best_scores, counts = np.empty((n, 5)), np.empty(n, dtype=np.intp)
        nodes, partitions = np.empty((n * T, ld)), np.empty(n)
        functions = [
            lambda m=model, w=workspace, c=codes, s=scores, n=n: m.predict(
                w, 0, n, c, s
            ),
            lambda m=model, w=workspace, b=best, s=best_scores, c=counts, n=n: (
                m.predict_topk(w, 0, n, 5, b, s, c)
            ),
            lambda m=model, w=workspace, n=n, x=nodes, z=partitions: write_marginals(
                m, w, 0, n, x, z
            ),
        ]
        names = ["Viterbi", "5 best", "sum-product"]
        if shutil.which("cc"):
            unary = (x * emission + tail[0]).reshape(n, T, ld)
            unary[:, 0] += tail[1]
            unary[:, -1] += tail[2]
            for real, dtype in (("double", np.float64), ("float", np.float32)):
                arrays = [
                    unary.astype(dtype),
                    tail[3:].astype(dtype),
                    np.zeros((T, ld), dtype),
                    np.empty(n * T, dtype=np.int32),
                ]
                functions.append(c_loop(folder, real, (n, T, K, ld), arrays))
                names.append(f"C loop, {real}")
            functions[0]()
            functions[-1]()
            assert (arrays[3] == codes).mean() > 0.99, "the loops disagree"
        seconds = best_of(functions)
        for k, (name, s) in enumerate(zip(names, seconds, strict=True)):
            against = (
                f"{seconds[0] / seconds[3]:.2f}" if len(names) > 3 and not k else ""
            )
            of_viterbi = f"{s / seconds[0]:.2f}"
            rows.append([K, name, f"{1e6 * s / n:.2f}", of_viterbi, against])
    table(
        "Chains of 25 positions, one after the other in one compiled loop "
        "(targets: Viterbi 1.5 of the C loop in double, 5 best and sum-product 6)",
        ["K", "oracle", "us a chain", "of Viterbi", "Viterbi / C double"],
        rows,
    )


def grid_edges(height, width):
    index = np.arange(height * width).reshape(height, width)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    return np.concatenate([across, down])


def cut_problems():
    """Name, edges, and a list of unary and pairwise scores."""
    rng = np.random.RandomState(0)
    edges = grid_edges(64, 64)
    problems = []
    for _ in range(20):
        y_true = np.zeros((64, 64))
        r, c = rng.randint(4, 30, size=2)
        y_true[r : r + 30, c : c + 30] = 1
        score = 2 * y_true.ravel() - 1 + 2 * rng.normal(size=64 * 64)
        weight = rng.rand(len(edges))
        problems.append((score, weight))
    yield "64 x 64, noisy squares", [edges] * len(problems), problems
    path = get_data_home(args.data_home) / "weizmann_horses64.npz"
    if not path.is_file():
        print(f"{path} is not there: no horses")
        return
    with np.load(path) as z:
        bounds = zip(z["offsets"][:-1], z["offsets"][1:], strict=True)
        images = [
            (z["X"][a:b].reshape(*shape, 3) / 255.0, z["y"][a:b])
            for (a, b), shape in zip(bounds, z["shape"], strict=True)
        ]
    # colors and places, and their squares, by logistic regression on 200 images
    features = []
    for image, _ in images:
        places = np.indices(image.shape[:2]) / np.array(image.shape[:2])[:, None, None]
        columns = np.concatenate([image.transpose(2, 0, 1), places - 0.5])
        columns = columns.reshape(5, -1)
        features.append(np.concatenate([columns, columns**2]).T)
    model = LogisticRegression(max_iter=200).fit(
        np.concatenate(features[:200])[::7],
        np.concatenate([y for _, y in images[:200]])[::7],
    )
    all_edges, problems = [], []
    for (image, _), rows in zip(images[200:], features[200:], strict=True):
        edges = grid_edges(*image.shape[:2])
        flat = image.reshape(-1, 3)
        square = ((flat[edges[:, 0]] - flat[edges[:, 1]]) ** 2).sum(axis=1)
        weight = 0.1 + np.exp(-square / (2 * square.mean() + 1e-9))
        all_edges.append(edges)
        problems.append((model.decision_function(rows), weight))
    yield "Weizmann horses, longer side 64", all_edges, problems


def cuts():
    try:
        import maxflow
    except ImportError:
        maxflow = None
        print("PyMaxflow is not installed: no comparison")
    rows = []
    potts = np.array([[0.0, -1.0], [-1.0, 0.0]])
    rng = np.random.RandomState(0)
    for name, all_edges, problems in cut_problems():
        inputs = [
            (np.stack([np.zeros_like(score), score], 1), weight[:, None, None] * potts)
            for score, weight in problems
        ]
        sizes = [len(score) for score, _ in problems]
        solvers = [MinCut(e, n) for e, n in zip(all_edges, sizes, strict=True)]
        near = [(u + 0.01 * rng.normal(size=u.shape), p) for u, p in inputs]

        def cold(everything=(all_edges, sizes, inputs)):
            return [
                MinCut(e, n).solve(*pair)[0]
                for e, n, pair in zip(*everything, strict=True)
            ]

        def warm(everything=(solvers, near, inputs)):
            for solver, changed, pair in zip(*everything, strict=True):
                solver.solve(*changed)
                solver.solve(*pair)

        def peer(everything=(all_edges, sizes, problems)):
            out = []
            for e, n, (score, weight) in zip(*everything, strict=True):
                graph = maxflow.GraphFloat(n, len(e))
                graph.add_nodes(n)
                graph.add_edges(e[:, 0], e[:, 1], weight, weight)
                source, sink = np.maximum(score, 0.0), np.maximum(-score, 0.0)
                graph.add_grid_tedges(np.arange(n), source, sink)
                graph.maxflow()
                out.append(1 - graph.get_grid_segments(np.arange(n)))
            return out

        seconds = best_of([cold, warm] + [peer] * (maxflow is not None), 7)
        seconds[1] /= 2
        texts = ["MinCut, new graph", "MinCut, scores changed a little"]
        if maxflow is not None:
            pairs = list(zip(cold(), peer(), strict=True))
            same = np.mean([(a == b).mean() for a, b in pairs])
            texts.append(f"PyMaxflow, new graph; {100 * same:.2f} % of labels equal")
        for text, value in zip(texts, seconds, strict=True):
            ratio = f"{value / seconds[2]:.2f}" if len(seconds) > 2 else ""
            rows.append([name, text, f"{1e3 * value / len(problems):.3f}", ratio])
        start = time.perf_counter()
        solvers[0].max_marginals()
        value = 1e3 * (time.perf_counter() - start)
        rows.append([name, "max-marginals of the first", f"{value:.1f}", ""])
    table("Minimum cuts", ["graph", "who", "ms a problem", "of PyMaxflow"], rows)


def large_trees():
    """A tree and a chain of 200,000 binary variables, checks included."""
    n = 200_000
    rng = np.random.RandomState(0)
    unary, pairs = rng.normal(size=(n, 2)), rng.normal(size=(2, 2))
    tree = np.array([(rng.randint(v), v) for v in range(1, n)])
    chain = np.column_stack([np.arange(n - 1), np.arange(1, n)])
    seconds = best_of(
        [
            lambda: viterbi(unary, pairs),
            lambda: max_product(unary, chain, pairs),
            lambda: max_product(unary, tree, pairs),
        ],
        7,
    )
    names = ["viterbi, a chain", "max_product, a chain", "max_product, a tree"]
    table(
        "200,000 binary variables, checks included",
        ["oracle", "ms", "of viterbi"],
        [
            [name, f"{1e3 * value:.1f}", f"{value / seconds[0]:.1f}"]
            for name, value in zip(names, seconds, strict=True)
        ],
    )


def small_problems():
    """Many small problems, one call each and through `batch`."""
    rng = np.random.RandomState(0)
    pairs = rng.normal(size=(4, 4))
    potts = np.array([[0.0, -1.0], [-1.0, 0.0]])
    edges = grid_edges(6, 6)
    trees = [
        (
            rng.normal(size=(10, 4)),
            np.array([(rng.randint(v), v) for v in range(1, 10)]),
            pairs,
        )
        for _ in range(2000)
    ]
    grids = [
        (
            rng.normal(size=(36, 2)),
            edges,
            rng.rand(len(edges))[:, None, None] * potts,
        )
        for _ in range(2000)
    ]
    chains = [(rng.normal(size=(10, 5)), rng.normal(size=(5, 5))) for _ in range(2000)]
    squares = [(rng.normal(size=(6, 6)),) for _ in range(2000)]
    rows = []
    for name, oracle, problems in (
        ("chains of 10 positions, 5 labels", viterbi, chains),
        ("trees of 10 variables, 4 states", max_product, trees),
        ("cuts of 6 x 6 grids", min_cut, grids),
        ("assignments of 6 x 6", matching, squares),
    ):
        alone, together = best_of(
            [
                lambda o=oracle, p=problems: [o(*problem) for problem in p],
                lambda o=oracle, p=problems: batch(o, p),
            ],
            5,
        )
        microseconds = [1e6 * seconds / len(problems) for seconds in (alone, together)]
        rows.append([name, *(f"{value:.1f}" for value in microseconds)])
    table("Small problems, us each", ["problems", "one call each", "batch"], rows)


def assignments():
    rows = []
    for p in (10, 50, 200):
        scores = np.random.RandomState(0).normal(size=(p, p))
        alone, ours, marginals = best_of(
            [
                lambda s=scores: linear_sum_assignment(s, maximize=True),
                lambda s=scores: matching(s),
                lambda s=scores: matching_max_marginals(s),
            ],
            50,
        )
        rows.append([p, *(f"{1e6 * s:.0f}" for s in (alone, ours, marginals))])
        rows[-1].append(f"{marginals / alone / np.log(p):.2f}")
    table(
        "Assignments (target at p = 50: 3)",
        [
            "p",
            "scipy alone, us",
            "matching with prices",
            "max-marginals",
            "max-marginals / (scipy log p)",
        ],
        rows,
    )


def searches():
    """Oracles without a peer: seconds, and what they are measured by."""
    rng = np.random.RandomState(0)
    rows = []
    for side in (20, 40, 80, 160):
        unary = rng.normal(size=(5, side, side))
        edges = [(v, v + 1) for v in range(4)]
        (seconds,) = best_of([lambda u=unary, e=edges: parts_max_product(u, e, 2, 0.1)])
        text = f"5 parts on {side} x {side}"
        rows.append([text, f"{1e3 * seconds:.2f}", f"{1e9 * seconds / unary.size:.0f}"])
        rows[-1][2] += " ns a position"
    weights = rng.normal(size=(100, 100)) - 0.2
    weights[30:60, 40:80] += 1.5
    (seconds,) = best_of([lambda: best_boxes(weights)], 3)
    visited = best_boxes(weights).n_visited
    rows.append(["best box in 100 x 100", f"{1e3 * seconds:.2f}", f"{visited} sets"])
    p = 50
    unary, pairs = rng.normal(size=(p, 10)), rng.normal(size=(10, 10))
    edges = [(rng.randint(v), v) for v in range(1, p)]
    functions = [
        lambda: max_product(unary, edges, pairs),
        lambda: max_product_topk(unary, edges, pairs, 10),
        lambda: bmmf(lambda u: max_marginals(u, edges, pairs), unary, 10),
    ]
    names = ["best", "10 best, max-product", "10 best, BMMF"]
    seconds = best_of(functions)
    for name, value in zip(names, seconds, strict=True):
        ratio = f"{value / seconds[0]:.1f} of the best"
        rows.append([f"tree of {p} x 10: {name}", f"{1e3 * value:.2f}", ratio])
    table("Searches", ["oracle", "ms", ""], rows)


with tempfile.TemporaryDirectory() as name:
    chains(Path(name))
cuts()
large_trees()
small_problems()
assignments()
searches()
