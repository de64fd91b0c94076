"""Solvers of the hinge on six structures: exact, relaxed and smoothed, side by side.

For every structure, each solver whose oracle it has trains the same model for the same
seconds. The table has how far the objective is above the best lower bound of the
optimum, as a share of the objective at w = 0, after 10, 30 and 100 oracle calls for
each example, and after some CPU seconds. The relaxed objective counts where the
structure is relaxed. Smoothed hinges are judged by the hinge.

"ms a sweep" is the bare cost of the max oracle for all examples.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import _common
import _label_sets
import numpy as np
from bench_gdmm import label_images
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

sys.path.append(str(Path(__file__).parents[1] / "examples"))
sys.path.append(str(Path(__file__).parents[1] / "examples" / "papers"))

from _alignment_features import dice_counts, pair_features
from _data import handwriting
from _horse_features import codebooks, graph, majority

from sksstruct import ChainCRF, MultilabelPairwise, SSVMClassifier
from sksstruct.datasets import fetch_ocr_letters, load_hansards, load_weizmann_horses
from sksstruct.estimators._train import prepare
from sksstruct.losses import SmoothedHinge
from sksstruct.models import GraphModel, MatchingModel, RelaxedGraphModel
from sksstruct.solvers import BCA, BCFW, GDMM, SDCA, SSG, Casimir, SoftBCFW

FOREVER = 10**9
CALLS = (10, 30, 100)
MU = 0.1
SOLVERS = {
    "BCFW, auto": BCFW(FOREVER, 0.0),
    "BCFW, as published": BCFW.as_published(max_iter=FOREVER, tol=0.0, check_every=5),
    "BCA": BCA(FOREVER, 0.0),
    "GDMM": GDMM(FOREVER, 0.0),
    "SoftBCFW": SoftBCFW(FOREVER, 0.0),
    "Casimir, l2": Casimir(FOREVER, 0.0),
    "Casimir, entropy": Casimir(FOREVER, 0.0, smoothing="entropy"),
    "SDCA, smoothed hinge": SDCA(FOREVER, 0.0),
    "SSG": SSG(FOREVER, 0.0),
}


def letters(args):
    data = fetch_ocr_letters("fold0", data_home=args.data_home)
    return ChainCRF(1 / len(data.X), loss_normalization="sequence"), data.X, data.y


def many_labels(args):
    X, y = handwriting(300, 400)
    return ChainCRF(0.02, loss_normalization="sequence"), X, y


def cuts(args):
    horses = load_weizmann_horses(data_home=args.data_home)
    books = codebooks(horses.images[:100])
    graphs = [graph(image, books) for image in horses.images[:100]]
    X, numbers = zip(*graphs, strict=True)
    y = list(map(majority, numbers, horses.masks[:100]))
    model = GraphModel("potts", inference="cut", class_weight="balanced")
    return SSVMClassifier(model, alpha=0.01), list(X), y


def cycles(args):
    X, y = label_images(10, 10, 8)
    return SSVMClassifier(RelaxedGraphModel(normalize=True), alpha=0.01), X, y


def label_sets(args):
    X, Y, *_ = _label_sets.load("yeast", args.data_home, unit=True)
    options = {"pairs": "all", "interaction_scaling": 1.0, "inference": "lp"}
    loss = "structured_hinge"
    return MultilabelPairwise(alpha=1 / len(Y), loss=loss, **options), X, Y


def matchings(args):
    data = load_hansards(data_home=args.data_home)
    dice = dice_counts([*data.trial, *data.test, *data.unaligned])
    X = [pair_features(pair, dice) for pair in data.test[:100]]
    model = MatchingModel(false_cost=1.0, miss_cost=3.0)
    y = [pair.links for pair in data.test[:100]]
    return SSVMClassifier(model, alpha=0.01), X, y


# Estimator and data, and the solvers that have an oracle for it
ALWAYS = ("BCFW, auto", "BCFW, as published", "SSG")
CHAIN = ("GDMM", "SoftBCFW", "Casimir, l2", "Casimir, entropy")
STRUCTURES = {
    "letters": (letters, (*CHAIN, "SDCA, smoothed hinge")),
    "many labels": (many_labels, CHAIN),
    "cuts": (cuts, ("Casimir, l2",)),
    "cycles": (cycles, ("GDMM", "SoftBCFW")),
    "label sets": (label_sets, ("BCA", "GDMM", "SoftBCFW")),
    "matchings": (matchings, ("Casimir, l2",)),
}


def run(estimator, X, y, name, seconds):
    """Calls for each example, CPU seconds and objectives of a fit; its lower bound."""
    is_smoothed, kept = name.startswith("SDCA"), {}
    hinge = prepare(estimator, X, y).model
    estimator = clone(estimator).set_params(solver=SOLVERS[name])
    if is_smoothed:
        estimator.set_params(loss=SmoothedHinge(mu=MU))

    def keep(number, weights):
        # the hinge is computed afterward, at fewer and fewer passes
        if is_smoothed and number >= 1.1 * max(kept, default=0):
            kept[number] = weights()

    problem = prepare(estimator, X, y)
    history = problem.solver.solve(
        problem.model, problem.alpha, random_state=0, callback=keep, max_seconds=seconds
    ).history
    primal, dual = history["primal"], history["dual"].max()
    if is_smoothed:
        at = np.isin(history["pass"], list(kept))
        history = {name: column[at] for name, column in history.items()}
        weights = [kept[number] for number in history["pass"]]
        primal, dual = [objective(hinge, problem.alpha, w) for w in weights], 0.0
    calls = history["oracle_calls"] / hinge.n_examples
    if "factors" in problem.solver.required_oracles:
        # an oracle for each factor: a pass over all of them is like one of the others
        calls = history["pass"]
    return calls, history["seconds"], np.minimum.accumulate(primal), dual


def objective(hinge, alpha, w):
    """The objective of a bound model."""
    out = np.zeros(hinge.n_examples)
    hinge.hinge(hinge.workspace(w), 0, hinge.n_examples, out)
    return alpha / 2 * w @ w + hinge.example_weights @ out


def compare(title, estimator, X, y, names, args):
    """Print the table of a structure."""
    hinge = prepare(estimator, X, y).model
    w = np.zeros(hinge.n_weights)
    start, sweep = objective(hinge, 0.0, w), _common.sweep_seconds(hinge, w, repeat=3)
    names = [*ALWAYS, *names]
    moments = [args.seconds * share for share in (0.03, 0.1, 0.3, 1.0)]
    runs = [run(estimator, X, y, name, args.seconds) for name in names]
    best = max(dual for *_, dual in runs)
    rows = []
    for name, (calls, seconds, primal, _) in zip(names, runs, strict=True):
        row = [name]
        for axis, limits in ((calls, CALLS), (seconds, moments)):
            for limit in limits:
                # not what is known before the first pass, or after the last one
                known = primal[(axis <= 1.05 * limit) & (calls > 0)]
                is_seen = axis[-1] >= 0.9 * limit or axis is seconds
                is_there = len(known) and is_seen
                row.append(f"{(known[-1] - best) / start:.1e}" if is_there else "")
        rows.append([*row, f"{calls[-1]:.0f}"])
    header = ["solver", *map(str, CALLS), *(f"{s:g} s" for s in moments), "calls"]
    size = f"{hinge.n_examples} examples, {1e3 * sweep:.1f} ms a sweep"
    _common.table(f"{title}: {size}, bound {best:.5f}", header, rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-home", default=None, help="folder of the data sets")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each fit")
    parser.add_argument("--only", nargs="+", choices=STRUCTURES, default=STRUCTURES)
    options = parser.parse_args()
    # of a machine with other work, what this process gets
    time.perf_counter = time.process_time
    warnings.simplefilter("ignore", ConvergenceWarning)
    for structure in options.only:
        make, others = STRUCTURES[structure]
        compare(structure, *make(options), others, options)
