"""What structures other than the chain pay for their layout of weights.

First a chain of first order, trained as `ChainCRF`, as paths of `GraphModel`, and as
segments of length one of `SegmentModel`: the same features, loss, order of visits and
optimum. CPU milliseconds of a pass of BCFW, of plain steps and with the default
options, and of a pass of SDCA on the likelihood. The ratios are those to `ChainCRF`.
"difference" is the largest of a weight after some plain passes.

Then CPU seconds of other structures to a gap that is a share of the objective at w = 0,
with the default solver.

Last how much memory a fit takes beside its data, in a process of its own: rows of
float32, and the same rows beside sparse ones. It is the growth of the peak of the
resident memory, which memory of NumPy and of the kernels are both part of.

    python benchmarks/bench_layout.py [--quick] [--only chains structures memory]
"""

import argparse
import itertools
import multiprocessing
import sys
import tempfile
import warnings
from collections import defaultdict
from functools import partial
from pathlib import Path

import _common
import numpy as np
from _chunking import chunking_data
from bench_oracles import grids, pairs, trees
from bench_parsing import is_projective, read
from scipy import sparse
from sklearn.base import clone

sys.path.append(str(Path(__file__).parents[1] / "examples"))

from _figure_features import patches

from sksstruct import ChainCRF, SegmentCRF, SSVMClassifier
from sksstruct.datasets import fetch_ocr_letters, make_segments, make_stick_figures
from sksstruct.datasets._fetch import get_data_home
from sksstruct.estimators._train import prepare
from sksstruct.feature_extraction import ArcVectorizer, SequenceVectorizer
from sksstruct.models import (
    DependencyModel,
    GraphModel,
    MatchingModel,
    PartsModel,
    RelaxedGraphModel,
    SegmentModel,
)
from sksstruct.solvers import BCFW, SDCA
from sksstruct.solvers.core.risk import Risk
from sksstruct.utils.packed import PackedSequences

TOL = 1e-3
N_TOKENS = 40_000

# ---- one chain, three models ----


def letters(args):
    data = fetch_ocr_letters("fold0", data_home=args.data_home)
    return list(data.X), [np.asarray(y) for y in data.y]


def chunks(args):
    features, y = chunking_data("train", args.data_home)
    n = 200 if args.quick else 1000
    X = SequenceVectorizer(dtype=np.float32).fit_transform(features[:n])
    # numbers, so that models of segments do not read a scheme of tags
    numbers = {k: i for i, k in enumerate(sorted(set().union(*y[:n])))}
    return X, [np.array([numbers[k] for k in labels]) for labels in y[:n]]


def models(X, y):
    """Estimator, inputs and outputs of each model of the same chain.

    Weights of the first and of the last label are two more columns of paths.
    """
    edges = [np.stack([np.arange(len(k) - 1), np.arange(1, len(k))], 1) for k in y]
    paths = [(with_ends(x), each) for x, each in zip(X, edges, strict=True)]
    single = SegmentModel(
        max_length=1, length_features=1, roles=False, fit_intercept=False,
        loss_normalization="example",
    )  # fmt: skip
    chain = ChainCRF(loss_normalization="sequence", intercept_scaling=1.0)
    return {
        "ChainCRF": (chain, X, y),
        "GraphModel": (SSVMClassifier(GraphModel()), paths, y),
        # cuts runs of a label into segments of length one
        "SegmentModel": (SSVMClassifier(single), X, y),
    }


def with_ends(x):
    """Rows with two more columns: whether they are the first, or the last."""
    ends = np.zeros((x.shape[0], 2))
    ends[0, 0] = ends[-1, 1] = 1.0
    if sparse.issparse(x):
        return sparse.csr_array(sparse.hstack([x, ends]))
    return np.hstack([x, ends])


def same_weights(name, fitted):
    """Weights of a model in one order: rows, bias, pairs, first and last label."""
    if name == "GraphModel":
        coef = fitted["coef_"]
        found = [coef[:, :-2], fitted["intercept_"], fitted["edge_coef_"], *coef.T[-2:]]
    else:
        bias = "intercept_" if name == "ChainCRF" else "length_coef_"
        names = "coef_", bias, "transitions_", "start_", "end_"
        found = [fitted[each] for each in names]
    return np.concatenate([np.ravel(each) for each in found])


def run_passes(problem, solver, n_passes):
    """CPU milliseconds of some passes, the gap computed after the last; the weights."""
    solver = clone(solver).set_params(max_iter=n_passes, check_every=n_passes, tol=0.0)
    with _common.Clock() as clock:
        result = solver.solve(problem.model, problem.solver_alpha, random_state=0)
    return 1e3 * clock.seconds, result.weights


def chain_rows(title, data, args):
    """Rows of the first table, of one set of data."""
    X, y = data
    solvers = {
        "BCFW, plain": ("hinge", BCFW.as_published(sampling="permutation")),
        "BCFW, defaults": ("hinge", BCFW()),
        "SDCA, likelihood": ("log", SDCA()),
    }
    for way, (loss, solver) in solvers.items():
        problems = {}
        for name, (estimator, inputs, outputs) in models(X, y).items():
            estimator.set_params(loss=loss, alpha=1 / len(y))
            # segments have no dual variables for SDCA
            if loss == "hinge" or name != "SegmentModel":
                problems[name] = prepare(estimator, inputs, outputs)
        few, all_, weights = defaultdict(list), defaultdict(list), {}
        for _ in range(3 if args.quick else 5):
            for name, problem in problems.items():
                few[name].append(run_passes(problem, solver, 1)[0])
                ms, w = run_passes(problem, solver, args.passes)
                all_[name].append(ms)
                weights[name] = same_weights(name, problem.attributes(w))
        # without the start, the first pass and the gap
        took = {k: (min(all_[k]) - min(few[k])) / (args.passes - 1) for k in problems}
        row = {"data": title, "a pass of".ljust(16): way}
        for name in ("ChainCRF", "GraphModel", "SegmentModel"):
            ratio = f"({took[name] / took['ChainCRF']:.2f})" if name in took else ""
            row[name.ljust(13)] = f"{took[name]:.1f} {ratio}" if ratio else ""
        own = weights["ChainCRF"]
        apart = max(abs(each - own).max() for each in weights.values())
        # the work that it measures decides how many known labelings BCFW() visits
        row["difference"] = "" if way == "BCFW, defaults" else f"{apart:.0e}"
        yield row


def run_chains(args):
    rows = itertools.chain(
        chain_rows("OCR", letters(args), args), chain_rows("CoNLL", chunks(args), args)
    )
    _common.live_table(f"One chain: CPU ms of each of {args.passes} passes", rows)


# ---- structures ----


def forests(args):
    return generated(GraphModel(), args, partial(trees, n_nodes=50, n_labels=10))


def cuts(args):
    model = GraphModel("potts", inference="cut")
    return generated(model, args, partial(grids, side=16))


def cycles(args):
    model = RelaxedGraphModel(normalize=True)
    return generated(model, args, partial(grids, side=10))


def matchings(args):
    return generated(MatchingModel(), args, partial(pairs, n=20))


def generated(model, args, make):
    """Estimator, inputs and outputs of a generator."""
    rng = np.random.RandomState(0)
    examples = [make(rng) for _ in range(20 if args.quick else 50)]
    return SSVMClassifier(model, alpha=0.1), *map(list, zip(*examples, strict=True))


def figures(args):
    data = make_stick_figures(
        10 if args.quick else 50, wobble=0.12, raised=0.5, random_state=0
    )
    X = [patches(image) for image in data.images]
    model = PartsModel(data.bones, unit=5.0)
    return SSVMClassifier(model, alpha=0.1), X, list(data.joints)


def sentences(args):
    home = get_data_home(args.data_home)
    X, y = read(home / "treebank" / "dependencies.txt.gz", 0, 1, 2)
    kept = [i for i, heads in enumerate(y) if is_projective(heads)]
    kept = kept[: 50 if args.quick else 300]
    X, y = [X[i] for i in kept], [y[i] for i in kept]
    model = SSVMClassifier(DependencyModel(True), alpha=0.1)
    return model, ArcVectorizer().fit(X, y).transform(X), y


def stages(args):
    data = make_segments(10 if args.quick else 20, random_state=0)
    return SegmentCRF(alpha=0.1), data.X, data.y


STRUCTURES = {
    "forests, 50 nodes x 10 labels": forests,
    "cuts, 16 x 16 nodes": cuts,
    "relaxed grids, 10 x 10 nodes": cycles,
    "parts, 11 in 40 x 32 places": figures,
    "matchings, 20 x 20": matchings,
    "dependency trees": sentences,
    "segments, 10 of about 20": stages,
}


def structure_row(name, make, args):
    """A row of the second table."""
    estimator, X, y = make(args)
    estimator.set_params(tol=TOL, max_iter=args.most_passes, random_state=0)
    problem = prepare(estimator, X, y)
    with _common.Clock() as clock:
        result = problem.solver.solve(
            problem.model, problem.solver_alpha, random_state=0
        )
    start = Risk(problem.model).value(np.zeros(problem.model.n_weights))
    return {
        "structure".ljust(30): name.ljust(30),
        "examples": problem.model.n_examples,
        "solver": type(problem.solver).__name__,
        "CPU s": f"{clock.seconds:.2f}",
        "passes": result.history["pass"][-1],
        "gap": f"{result.history['gap'][-1] / start:.1e}",
    }


def run_structures(args):
    rows = (structure_row(*item, args) for item in STRUCTURES.items())
    title = f"To a gap of {TOL:g}, or {args.most_passes} passes"
    _common.live_table(title, rows)


# ---- memory ----

FITS = {
    "ChainCRF": ChainCRF(),
    "SegmentCRF": SegmentCRF(),
    "SSVMClassifier, segments": SSVMClassifier(SegmentModel()),
    "SSVMClassifier, classes": SSVMClassifier(),
}


def save_rows(path, form, n_tokens):
    """Write rows of sequences of 20 tokens, and labels."""
    rng = np.random.default_rng(0)
    lengths = np.full(n_tokens // 20, 20)
    dense = rng.standard_normal((n_tokens, 100), dtype=np.float32)
    X = PackedSequences.from_lengths(dense, lengths)
    if form == "mixed":
        size = n_tokens * 20
        columns = rng.integers(10_000, size=size, dtype=np.int32)
        parts = np.ones(size, np.float32), columns, np.arange(0, size + 1, 20)
        words = sparse.csr_array(parts, shape=(n_tokens, 10_000))
        words.sum_duplicates()
        X = PackedSequences.hstack([PackedSequences.from_lengths(words, lengths), X])
    X.save(path, list(rng.integers(5, size=(len(lengths), 20))))


def nbytes(values):
    """Bytes of an array, of CSR, or of both."""
    if isinstance(values, np.ndarray):
        return values.nbytes
    if sparse.issparse(values):
        return values.data.nbytes + values.indices.nbytes + values.indptr.nbytes
    return nbytes(values.sparse) + nbytes(values.dense)


def peak():
    """Largest resident memory of this process so far, in MB."""
    # ru_maxrss of a new process begins at that of its parent
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def fit_memory(name, paths):
    """MB of the data, and by which a fit has raised the peak."""
    warnings.simplefilter("ignore")
    estimator = FITS[name].set_params(alpha=0.1, max_iter=2, random_state=0)
    # the first loads what the second uses
    for path in paths:
        X, y = PackedSequences.open(path, mmap=False, labels=True)
        data = nbytes(X.values) / 2**20
        if name.endswith("classes"):
            X, y = X.values, y.codes
        before = peak()
        estimator.fit(X, y)
    return data, peak() - before


def run_memory(args):
    with tempfile.TemporaryDirectory() as folder:
        rows = memory_rows(folder)
        _common.live_table(f"Memory of two passes over {N_TOKENS} tokens", rows)


def memory_rows(folder):
    """Rows of the third table."""
    for form in ("dense float32", "mixed"):
        paths = [f"{folder}/{form}, {n}" for n in (200, N_TOKENS)]
        for path, n_tokens in zip(paths, (200, N_TOKENS), strict=True):
            save_rows(path, form, n_tokens)
        for name in FITS:
            # classes take an array or CSR
            if form == "mixed" and name.endswith("classes"):
                continue
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                data, grown = pool.apply(fit_memory, (name, paths))
            row = {"fit".ljust(26): name.ljust(26), "rows".ljust(14): form.ljust(14)}
            yield row | {"data MB": f"{data:.1f}", "fit MB": f"{grown:.1f}"}


TABLES = {"chains": run_chains, "structures": run_structures, "memory": run_memory}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="fewer examples, repeats")
    parser.add_argument("--only", nargs="+", choices=TABLES, default=list(TABLES))
    args = parser.parse_args()
    args.passes, args.most_passes = (5, 50) if args.quick else (11, 200)
    warnings.simplefilter("ignore")
    for name in args.only:
        TABLES[name](args)


if __name__ == "__main__":
    main()
