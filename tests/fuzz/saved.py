"""Numbers of warm states and checkpoints, changed: an error that says so, or a fit.

Files come from strangers too, and their digests can be renewed. Any number that becomes
an index or a size must be looked at where it enters.
"""

import copy
import hashlib
import math
import tempfile
import warnings
from pathlib import Path

import numpy as np
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from sksstruct import (
    ChainCRF,
    LinearSSVC,
    MultilabelPairwise,
    SegmentCRF,
    SSVMClassifier,
)
from sksstruct.losses import SmoothedHinge
from sksstruct.models import CandidatesModel, GraphModel, MatchingModel, PartsModel
from sksstruct.solvers import BCFW, LBFGS, Partitioned
from sksstruct.solvers.partitioned.checkpoint import pack, unpack
from tests.fuzz._draws import decoded

PLAIN = dict(sampling="permutation", step="fw", cache=False)
CACHED = dict(sampling="permutation", step="pairwise", cache=True, inner_steps=5)


def _chains(rng):
    """Fits of taggers, with their data."""
    X = [rng.standard_normal((length, 3)) for length in (4, 1, 3, 5, 2, 4)]
    y = [rng.integers(0, 3, len(x)).tolist() for x in X]
    down = [sorted(labels, reverse=True) for labels in y]
    pairs = {"transition_features": [0, 1]}
    for name, parameters in {
        "labelings": {},
        "means": {"solver": BCFW(**PLAIN)},
        "cutting plane": {"solver": "cutting_plane"},
        "sdca": {"loss": "log", "solver": "sdca"},
        "pairs": {"loss": "log", "solver": "sdca", **pairs},
        "pair means": {"solver": BCFW(**PLAIN), **pairs},
        "gdmm": {"solver": "gdmm"},
        "second order": {"order": 2},
        "second order means": {"order": 2, "solver": BCFW(**PLAIN)},
        "second order sdca": {"order": 2, "loss": "log", "solver": "sdca"},
        **{s: {"loss": "log", "solver": s} for s in ("lbfgs", "svrg", "casimir")},
    }.items():
        yield name, ChainCRF(**parameters), X, y
    for name in ("bcfw", "gdmm"):
        forbidden = ChainCRF(forbidden_transitions=[(0, 1), (0, 2)], solver=name)
        yield f"forbidden {name}", forbidden, X, down
    many = rng.permutation(np.arange(120)).reshape(40, 3)
    rows = [np.eye(8)[labels % 8] for labels in many]
    yield "many labels", ChainCRF(), rows, many.tolist()


def _trees(rng):
    """Fits of segments and of dependency trees, with their data."""
    X = [rng.standard_normal((length, 3)) for length in (4, 1, 3, 5)]
    y = [["O", "B-a", "I-a", "B-b"], ["O"], ["B-b", "O", "B-a"], ["O"] * 5]
    arcs = [rng.standard_normal((n * (n + 1), 2)) for n in (1, 2, 3)]
    heads = [[0], [2, 0], [0, 1, 1]]
    for name, parameters in {
        "": {},
        " means": {"solver": BCFW(**PLAIN)},
        " sdca": {"loss": "log", "solver": "sdca"},
    }.items():
        yield f"segments{name}", SegmentCRF(**parameters), X, y
        parser = SSVMClassifier("dependencies", **parameters)
        yield f"dependencies{name}", parser, arcs, heads


def _others(rng):
    """Fits of other models, with their data."""
    rows, classes = rng.standard_normal((8, 3)), np.arange(8) % 3
    nodes = [(rng.standard_normal((n, 2)), rng.integers(0, 3, n)) for n in (3, 4, 3)]
    paths = [(x, [[k, k + 1] for k in range(len(x) - 1)]) for x, _ in nodes]
    rings = [(x, [*edges, [0, len(x) - 1]]) for x, edges in paths]
    labels = [y for _, y in nodes]
    plain = BCFW(**PLAIN)
    for name, model, X, y in (
        ("classes", "multiclass", rows, classes),
        ("tree", GraphModel(), paths, labels),
        ("cut", GraphModel("potts", inference="cut"), rings, [y % 2 for y in labels]),
    ):
        yield name, SSVMClassifier(model), X, y
        yield f"{name} means", SSVMClassifier(model, solver=plain), X, y
    soft = SmoothedHinge("entropy", 0.1)
    tables = SSVMClassifier("multiclass", loss=soft, solver="sdca")
    yield "tables", tables, rows, classes
    yield "tree gdmm", SSVMClassifier(GraphModel(), solver="gdmm"), paths, labels
    pairs = [rng.standard_normal((2, n, 3)) for n in (3, 2, 4)]
    links = [[1, 0], [0, -1], [3, -1]]
    yield "matching", SSVMClassifier(MatchingModel(), solver=plain), pairs, links
    yield "matchings", SSVMClassifier(MatchingModel()), pairs, links
    boxes = np.array([[0.0, 0, 2, 2], [1, 1, 4, 4], [5, 5, 9, 9]])
    images = [(rng.standard_normal((3, 2)), boxes) for _ in range(4)]
    found = [tuple(boxes[k % 3]) for k in range(4)]
    yield "boxes", SSVMClassifier(CandidatesModel("iou")), images, found
    grids = [rng.standard_normal((*shape, 2)) for shape in ((2, 3), (3, 2))]
    places = [[[0, 1], [1, 2]], [[1, 1], [2, 0]]]
    for types in (1, 2):
        model = PartsModel([(0, 1)], unit=2.0, n_types=types)
        yield f"parts {types}", SSVMClassifier(model), grids, places
    yield "parts means", SSVMClassifier(model, solver=plain), grids, places


def _warm():
    """Estimators that another fit continues, with their data."""
    rng, fits = np.random.default_rng(0), {}
    for name, estimator, X, y in (*_chains(rng), *_others(rng), *_trees(rng)):
        estimator.set_params(warm_start=True, alpha=0.05, max_iter=3, random_state=0)
        fits[name] = estimator.fit(X, y), X, y
        assert fits[name][0]._warm[1], name
    return fits


def _read(folder):
    """The states in the files of a checkpoint, by name."""
    return {path.name: unpack(path.read_bytes()) for path in folder.iterdir()}


def _checkpoints():
    """Estimators that go on from a checkpoint, their data, and its files."""
    rng, runs = np.random.default_rng(1), {}
    X = [rng.standard_normal((length, 3)) for length in (4, 1, 3, 5, 2, 4)]
    y = [rng.integers(0, 3, len(x)).tolist() for x in X]
    rows, sets = rng.standard_normal((8, 3)), (rng.random((8, 4)) < 0.5).astype(int)
    cached = BCFW(**CACHED, averaging="suffix")
    several = MultilabelPairwise(loss="structured_hinge")
    segments, parser = (fit[1:] for fit in list(_trees(rng))[:2])
    for name, estimator, solver, *data in (
        ("cached", ChainCRF(), cached, X, y),
        ("means", ChainCRF(), BCFW(**PLAIN), X, y),
        ("by gap", ChainCRF(), BCFW(sampling="gap", averaging=False), X, y),
        ("log", ChainCRF(loss="log"), None, X, y),
        ("gradients", ChainCRF(loss="log"), LBFGS(), X, y),
        ("classes", SSVMClassifier("multiclass"), cached, rows, np.arange(8) % 3),
        ("binary", LinearSSVC(), cached, rows, np.arange(8) % 2),
        ("sets", several, cached, rows, sets),
        ("means of sets", clone(several), BCFW(**PLAIN), rows, sets),
        ("second order", ChainCRF(order=2), cached, X, y),
        ("segments", clone(segments[0]), cached, *segments[1:]),
        ("dependencies", clone(parser[0]), cached, *parser[1:]),
    ):
        with tempfile.TemporaryDirectory() as folder:
            blocks = Partitioned(
                3, 0.0, solver=solver, blocks=2, keep_every=2, checkpoint=folder
            )
            estimator.set_params(alpha=0.05, solver=blocks, random_state=0).fit(*data)
            blocks.set_params(max_iter=5, resume=True)
            runs[name] = estimator, *data, _read(Path(folder))
    return runs


# one thread, as those of a parent are not there after a fork
with warnings.catch_warnings(), threadpool_limits(1):
    warnings.simplefilter("ignore")
    SAVED = {**_warm(), **{f"from {k}": v for k, v in _checkpoints().items()}}

WHOLE = 2**30, 2**31 - 1, -1, -(2**31), 0, 1, 3, 7, 50, 2**20, 2**62
REAL = 2.0**30, -1.0, math.nan, math.inf, -math.inf, 1e300, 0.0, 0.5, 7.0
SHAPES = "cut", "doubled", "flat", "single", "objects", "strided"


def leaves(state, at=()):
    """Places of the arrays, numbers and strings of a state, in their order."""
    if isinstance(state, dict):
        return [p for k in state for p in leaves(state[k], (*at, k))]
    if isinstance(state, (list, tuple)):
        return [p for k in range(len(state)) for p in leaves(state[k], (*at, k))]
    return [at]


def changed(state, at, value):
    """A copy of a state with another value at a place."""
    if not at:
        return value
    if isinstance(state, tuple):
        return tuple(changed(list(state), at, value))
    state = copy.copy(state)
    state[at[0]] = changed(state[at[0]], at[1:], value)
    return state


def _entry(state, at):
    for key in at:
        state = state[key]
    return state


def _wrong(value, draws):
    """Another value in the place of one."""
    if isinstance(value, np.ndarray) and value.ndim:
        how = draws.integer(0, 3)
        if how == 0 or not value.size or value.dtype.kind not in "iuf":
            shape = draws.choice(SHAPES)
            return {
                "cut": value[: len(value) // 2],
                "doubled": np.concatenate([value, value]),
                "flat": value.reshape(-1),
                "single": value.astype(np.float32),
                "objects": value.astype(object),
                "strided": np.repeat(value, 2, axis=0)[::2],
            }[shape]
        value = value.copy()
        table = WHOLE if value.dtype.kind in "iu" else REAL
        with np.errstate(over="ignore"):
            new = np.array(draws.choice(table)).astype(value.dtype)
        if how == 1:
            value[...] = new
        else:
            value.flat[draws.integer(0, value.size - 1)] = new
        return value
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, np.integer)):
        return draws.choice(WHOLE)
    if isinstance(value, float):
        return draws.choice(REAL)
    if isinstance(value, str):
        return draws.choice(["", "../B/kept.npz", "/kept", "driver.npz", value[::-1]])
    return draws.choice([None, 3, [], {}])


def _case(draws):
    name, changes = draws.choice(sorted(SAVED)), []
    # a warm state is one file without a name
    files = SAVED[name][3] if len(SAVED[name]) > 3 else {"": SAVED[name][0]._warm[1]}
    for _ in range(draws.integer(1, 2)):
        file = draws.choice(sorted(files))
        places = leaves(files[file])
        at = places[draws.integer(0, len(places) - 1)]
        changes.append((file, at, _wrong(_entry(files[file], at), draws)))
    return name, changes


cases = decoded(64, _case)


def write(folder, files):
    """Write the files of a checkpoint, with their new digests."""
    digests = {}
    for name in sorted(files, key=lambda name: name == "driver.npz"):
        if name == "driver.npz":
            files = copy.deepcopy(files)
            for pair in [p for p in leaves(files[name]) if len(p) > 1 and p[-1] == 0]:
                listed = _entry(files[name], pair[:-1])
                if isinstance(listed, list) and listed[0] in digests:
                    listed[1] = digests[listed[0]]
        data = pack(files[name])
        digests[name] = hashlib.sha256(data).hexdigest()
        (folder / name).write_bytes(data)


def _fit(changes, fitted, X, y, files=None):
    """Continue a fit from its warm state, or from the files of a checkpoint."""
    if files is None:
        spec, state = fitted._warm
        for _, at, value in changes:
            if at in leaves(state):
                state = changed(state, at, value)
        fitted._warm = spec, state
        return fitted.set_params(max_iter=2).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        inside, kept = Path(folder) / "A", Path(folder) / "B" / "kept.npz"
        for path in (inside, kept.parent):
            path.mkdir()
        kept.write_bytes(b"of somebody else")
        for file, at, value in changes:
            if at in leaves(files[file]):
                files = {**files, file: changed(files[file], at, value)}
        write(inside, files)
        fitted.set_params(solver__checkpoint=str(inside))
        try:
            return fitted.fit(X, y)
        finally:
            assert kept.exists(), "a file outside of the folder is gone"


def check(case):
    """Continue from what was changed: only `ValueError`, or a fit that can be used."""
    name, changes = case
    # fits write to the state that they continue
    fitted, X, y, *files = copy.deepcopy(SAVED[name])
    try:
        with threadpool_limits(1):
            _fit(changes, fitted, X, y, *files)
    except ValueError:
        return
    assert np.isfinite(fitted.objective_), fitted.objective_
    fitted.predict(X)
