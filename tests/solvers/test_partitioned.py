"""Training in blocks: the optimum of others, and the same bits whoever computes."""

import copy
import errno
import hashlib
import time
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from sksstruct import ChainCRF, MultilabelPairwise, SSVMClassifier
from sksstruct.datasets import make_chain
from sksstruct.losses import SmoothedHinge
from sksstruct.models.chain import chain
from sksstruct.models.protocols._weights import Weights
from sksstruct.solvers import BCFW, LBFGS, SDCA, Partitioned
from sksstruct.solvers.partitioned import blocks
from sksstruct.solvers.partitioned.average import Average
from sksstruct.solvers.partitioned.checkpoint import pack, unpack
from sksstruct.solvers.partitioned.executors import Serial, Threads
from sksstruct.solvers.partitioned.rounds import Rounds
from sksstruct.solvers.partitioned.scaling import Scaling
from sksstruct.utils.entries import Entries

LOSSES = ("hinge", "log")


@pytest.fixture(scope="module")
def data():
    found = make_chain(
        23, n_features=4, n_classes=3, max_length=6, noise=1.0, random_state=3
    )
    return found.X, found.y


def fit(data, solver, weight=None, **parameters):
    parameters = {"alpha": 0.05, "random_state": 0, **parameters}
    return ChainCRF(solver=solver, **parameters).fit(*data, sample_weight=weight)


def weights(tagger):
    names = ("coef_", "intercept_", "start_", "end_", "transitions_")
    return np.concatenate([getattr(tagger, name).ravel() for name in names])


# ---- the optimum ----


@pytest.mark.slow
@pytest.mark.parametrize("n_blocks", [1, 2, 7, 100])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_optimum_is_that_of_other_solvers(data, loss, n_blocks):
    weight = np.random.RandomState(0).uniform(0, 2, len(data[0]))
    weight[4] = 0.0
    other = "auto" if loss == "hinge" else "lbfgs"
    common = {"loss": loss, "alpha": 0.2}
    expected = fit(data, other, weight, **common, tol=1e-4, max_iter=20_000)
    solver = Partitioned(blocks=n_blocks, tol=1e-2, max_iter=5000)
    found = fit(data, solver, weight, **common)
    assert found.dual_gap_ <= 1e-2 * max(1.0, found.objective_)
    distance = found.objective_ - expected.objective_
    assert -expected.dual_gap_ - 1e-12 <= distance <= found.dual_gap_ + 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(
    "solver",
    [
        BCFW(),
        BCFW.as_published(sampling="uniform", step="away", cache=True, cached_passes=2),
        BCFW.as_published(step="pairwise", averaging=False, inner_steps=3),
        BCFW(bounds={"transitions": (-0.1, 0.1)}),
        None,
    ],
    ids=str,
)
@pytest.mark.parametrize("scaling", ["safe", "adaptive"])
def test_every_solver_of_blocks_certifies_its_optimum(data, solver, scaling):
    partitioned = Partitioned(
        solver=solver, blocks=4, tol=0.01, max_iter=5000, scaling=scaling
    )
    found = fit(data, partitioned, alpha=0.2)
    bounds = getattr(solver, "bounds", None)
    expected = fit(data, BCFW(tol=1e-3, max_iter=20_000, bounds=bounds), alpha=0.2)
    assert found.dual_gap_ <= 0.01
    assert found.objective_ - expected.objective_ <= found.dual_gap_ + 1e-9
    assert found.objective_ >= expected.objective_ - expected.dual_gap_ - 1e-9
    if bounds:
        assert np.abs(found.transitions_).max() <= 0.1


def test_elastic_net(data):
    common = {"loss": "log", "l1_ratio": 0.5}
    expected = fit(data, SDCA(tol=1e-7), **common)
    found = fit(data, Partitioned(blocks=5, tol=1e-6, max_iter=5000), **common)
    assert abs(found.objective_ - expected.objective_) <= 3e-6 * found.objective_
    assert ((found.coef_ == 0.0) == (expected.coef_ == 0.0)).all()


def test_weights_that_exist_are_those_of_all_examples():
    rng = np.random.RandomState(0)
    X = [sparse.random_array((4, 30), density=0.1, rng=rng) for _ in range(12)]
    y = [rng.randint(3, size=4) for _ in X]
    common = {"loss": "log", "all_possible_states": False}
    expected = fit((X, y), SDCA(tol=1e-6), **common)
    found = fit((X, y), Partitioned(blocks=4, tol=1e-5), **common)
    assert abs(found.objective_ - expected.objective_) <= 2e-5
    assert ((found.coef_ == 0.0) == (expected.coef_ == 0.0)).all()


def problems():
    rng = np.random.RandomState(0)
    X, y = rng.normal(size=(40, 3)), rng.randint(3, size=40)
    yield "classes", SSVMClassifier("multiclass"), X, y
    yield "sparse classes", SSVMClassifier("multiclass"), sparse.csr_array(X), y
    smooth = SSVMClassifier("multiclass", loss=SmoothedHinge("entropy", 0.1))
    yield "smoothed", smooth, X, y
    pairs = MultilabelPairwise(loss="structured_hinge", interaction_scaling=1.0)
    yield "labels", pairs, X, rng.randint(2, size=(40, 3))
    nodes = [(rng.normal(size=(3, 2)), [(0, 1), (1, 2)]) for _ in range(12)]
    labels = [rng.randint(3, size=3) for _ in nodes]
    yield "graphs", SSVMClassifier("graph"), nodes, labels


@pytest.mark.parametrize("problem", problems(), ids=lambda problem: problem[0])
def test_other_models(problem):
    _, estimator, X, y = problem
    estimator.set_params(alpha=0.1, random_state=0, tol=1e-3, max_iter=5000)
    expected = estimator.fit(X, y).objective_
    solver = Partitioned(blocks=3, tol=1e-3, max_iter=5000)
    found = estimator.set_params(solver=solver).fit(X, y)
    assert abs(found.objective_ - expected) <= 1e-3 * max(1.0, expected)


# ---- the same bits ----


class Losing(Serial):
    """Drops blocks at random: before a call of one of them, or after it."""

    loses_blocks = True

    def __init__(self, share):
        super().__init__()
        self.rng, self.share, self.n_lost = np.random.RandomState(0), share, 0

    def call(self, method, *common, blocks=None, each=None, total=None):
        values = {}
        for number in range(self.n_blocks) if blocks is None else blocks:
            if self.blocks[number] is not None:
                one = super().call(
                    method, *common, blocks=[number], each=each, total=total
                )
                values.update(one)
                # gone after its answer came
                self._drop(number)
            if number not in values:
                self.n_lost += 1
        return values

    def _drop(self, number):
        if self.rng.uniform() < self.share:
            self.blocks[number] = None


SOLVERS = {
    "hinge": [
        None,
        BCFW(),
        BCFW.as_published(step="away", cache=True, averaging=False),
    ],
    "log": [None, SDCA(sampling="permutation")],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss, solver", [(loss, each) for loss in SOLVERS for each in SOLVERS[loss]]
)
def test_bits_do_not_depend_on_threads_or_losses(data, loss, solver):
    def run(n_jobs=None, executor=None, **parameters):
        partitioned = Partitioned(
            solver=solver,
            blocks=5,
            tol=0.0,
            max_iter=5,
            executor=executor,
            **parameters,
        )
        with pytest.warns(UserWarning, match="did not converge"):
            return fit(data, partitioned, loss=loss, n_jobs=n_jobs)

    expected = run()
    losing = Losing(0.03), Losing(0.1)
    others = [run(n_jobs=2), run(n_jobs=3), run(executor=Serial())]
    others += [run(executor=executor, keep_every=3) for executor in losing]
    for found in others:
        assert np.array_equal(weights(found), weights(expected))
        for name in ("primal", "dual", "oracle_calls", "sigma"):
            np.testing.assert_array_equal(found.history_[name], expected.history_[name])
    assert all(executor.n_lost for executor in losing)


@pytest.mark.parametrize("sparse_transitions", [False, True])
@pytest.mark.parametrize(
    "loss, solver",
    [
        ("hinge", None),
        ("hinge", BCFW.as_published(sampling="gap", averaging=False)),
        ("log", None),
    ],
)
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_rows_that_are_marked_are_all_that_changed(
    loss, solver, sparse_transitions, monkeypatch
):
    monkeypatch.setattr(chain, "sparse_pays", lambda *numbers: sparse_transitions)
    rng = np.random.RandomState(1)
    X = [sparse.random_array((3, 400), density=0.01, rng=rng) for _ in range(60)]
    y = [rng.randint(5, size=3) for _ in X]
    found = []
    for few, n_jobs in ((10**9, 1), (0, 1), (0, 2)):
        monkeypatch.setattr(blocks, "_FEW_WEIGHTS", few)
        each = partitioned(solver=solver, blocks=4, max_iter=6)
        found.append(fit((X, y), each, loss=loss, n_jobs=n_jobs))
    for each in found[1:]:
        assert np.array_equal(each.coef_, found[0].coef_)
        assert each.objective_ == found[0].objective_


@pytest.mark.parametrize("problem", problems(), ids=lambda problem: problem[0])
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_other_models_mark_what_they_change(problem, monkeypatch):
    _, estimator, X, y = problem
    estimator.set_params(
        alpha=0.1, random_state=0, solver=partitioned(blocks=3, max_iter=4)
    )
    found = []
    for few in (10**9, 0):
        monkeypatch.setattr(blocks, "_FEW_WEIGHTS", few)
        found.append(estimator.fit(X, y).objective_)
    assert found[0] == pytest.approx(found[1], rel=1e-12)


@pytest.mark.parametrize("kind", [True, "suffix"])
def test_the_average_is_that_of_the_iterates(kind):
    rng, weights = np.random.RandomState(0), Weights(8)
    average, iterates, begun = Average(weights, kind), [], 0
    for number in range(1, 14):
        # two rounds a pass
        average.plan(number, check_at=4 * -(-number // 4))
        if kind == "suffix" and average.count == 0.0:
            begun = len(iterates)
        for _ in range(2):
            change = rng.normal(size=8)
            if average.u is not None:
                average.u[:] += average.factor * change
            weights.v[:] += change
            iterates.append((weights.v.copy(), rng.normal()))
            average.add(iterates[-1][1])
        if not average.is_on:
            assert average.current(-1.0) == (weights.v, -1.0)
            continue
        v, losses = zip(*iterates[begun:], strict=True)
        k = np.arange(1, len(v) + 1)
        mean, loss = average.current(np.nan)
        np.testing.assert_allclose(mean, np.average(v, axis=0, weights=k), atol=1e-12)
        assert loss == pytest.approx(np.average(losses, weights=k))


def test_numbers_of_blocks_and_rounds(data):
    sizes = {1: 1, 199: 1, 200: 2, 15_999: 2, 16_000: 4, 31_999: 4, 32_000: 8}
    sizes[10**6] = 8
    assert {n: Partitioned().n_blocks(n) for n in sizes} == sizes
    assert Partitioned(blocks=5).n_blocks(3) == 3

    class Counting(Serial):
        calls = 0

        def call(self, method, *common, **arguments):
            self.calls += method == "advance" and not common[2].known
            return super().call(method, *common, **arguments)

    X, y = data[0] * 40, data[1] * 40
    for loss, n_rounds in (("hinge", 4), ("log", 16)):
        counting = Counting()
        solver = partitioned(executor=counting, blocks=2, max_iter=1)
        with pytest.warns(UserWarning, match="did not converge"):
            fit((X, y), solver, loss=loss)
        assert counting.calls == n_rounds


@pytest.mark.parametrize("n_blocks, expected", [(1, 1), (2, 1), (4, 4), (6, 4)])
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_rounds_of_known_labelings(data, n_blocks, expected):
    turns = []

    class Listening(Serial):
        def call(self, method, *common, **arguments):
            if method == "advance" and common[2].known:
                turns.append(common[2].n_parts)
            return super().call(method, *common, **arguments)

    solver = partitioned(executor=Listening(), blocks=n_blocks, max_iter=2)
    fit((data[0] * 40, data[1] * 40), solver)
    assert set(turns) == {expected}


# ---- checkpoints and interrupts ----


def partitioned(folder=None, **parameters):
    defaults = {"blocks": 3, "tol": 0.0, "max_iter": 9, "keep_every": 2}
    return Partitioned(checkpoint=folder, **{**defaults, **parameters})


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_a_run_goes_on_with_the_same_bits(data, loss, tmp_path):
    expected = fit(data, partitioned(), loss=loss)
    # three passes are lost
    fit(data, partitioned(tmp_path, max_iter=5), loss=loss)
    found = fit(data, partitioned(tmp_path, resume=True), loss=loss, n_jobs=2)
    assert np.array_equal(weights(found), weights(expected))
    for name in set(expected.history_) - {"seconds", "bytes_up", "bytes_down"}:
        np.testing.assert_array_equal(found.history_[name], expected.history_[name])
    # blocks that are lost go on from the files
    losing = Losing(0.05)
    found = fit(data, partitioned(tmp_path, executor=losing), loss=loss)
    assert np.array_equal(weights(found), weights(expected)) and losing.n_lost


@pytest.mark.filterwarnings("ignore:training did not converge")
def test_a_checkpoint_on_another_file_system(data):
    fsspec = pytest.importorskip("fsspec")
    url = "memory://checkpoints/run"
    expected = fit(data, partitioned())
    fit(data, partitioned(url, max_iter=5))
    # the states of three blocks, and that of the driver: older ones are removed
    assert len(fsspec.filesystem("memory").ls("/checkpoints/run")) == 4
    found = fit(data, partitioned(url, resume=True))
    assert np.array_equal(weights(found), weights(expected))
    fsspec.filesystem("memory").rm("/checkpoints", recursive=True)
    with pytest.raises(ValueError, match="there is no checkpoint in 'memory://"):
        fit(data, partitioned(url, resume=True))


def test_checkpoints_that_are_no_use(data, tmp_path):
    with pytest.raises(ValueError, match="there is no checkpoint in"):
        fit(data, partitioned(tmp_path, resume=True))
    with pytest.raises(ValueError, match="needs a checkpoint"):
        fit(data, partitioned(resume=True))
    with pytest.warns(UserWarning, match="did not converge"):
        fit(data, partitioned(tmp_path))
    again = partitioned(tmp_path, resume=True)
    for solver, parameters in (
        (again, {"alpha": 0.1}),
        (again, {"random_state": 1}),
        (again, {"loss": "log"}),
        (partitioned(tmp_path, resume=True, blocks=4), {}),
    ):
        with pytest.raises(ValueError, match="belongs to another run"):
            fit(data, solver, **parameters)
    # as many examples of the same lengths
    X, y = data
    others = (
        ([x + 0.5 for x in X], y, {}),
        (X, [(row + 1) % 3 for row in y], {}),
        (X, y, {"weight": np.linspace(0.5, 1.5, len(X))}),
        (X, y, {"class_weight": {0: 2.0}}),
    )
    for *other, parameters in others:
        with pytest.raises(ValueError, match="belongs to other examples"):
            fit(other, again, **parameters)
    (block,) = tmp_path.glob("block-1-*")
    written = block.read_bytes()
    block.write_bytes(written[:-10])
    with pytest.raises(ValueError, match="not what was written"):
        fit(data, again)
    block.unlink()
    with pytest.raises(ValueError, match="is missing"):
        fit(data, again)
    driver = tmp_path / "driver.npz"
    state = unpack(driver.read_bytes())
    for content, message in (
        (b"PK", "is not a checkpoint"),
        (written, "is the file of a block"),
        (pack({**state, "version": 9}), "has another format"),
        (pack({**state, "format": "?"}), "has another format"),
    ):
        driver.write_bytes(content)
        with pytest.raises(ValueError, match=f"driver.npz in the .* {message}"):
            fit(data, again)
    driver.unlink()
    driver.mkdir()
    with pytest.raises(ValueError, match=r"driver.npz in the checkpoint .* cannot be"):
        fit(data, again)
    with pytest.raises(ValueError, match=r"driver.npz in checkpoint=.* is a folder"):
        fit(data, partitioned(tmp_path))
    block.write_bytes(b"")
    with pytest.raises(ValueError, match=r"checkpoint=.* is a file; expected a folder"):
        fit(data, partitioned(block))


@pytest.mark.filterwarnings("ignore:training did not converge")
def test_numbers_of_a_checkpoint_are_looked_at(data, tmp_path):
    """Numbers that become indices and sizes, and names of files, with new digests."""
    folder, other = tmp_path / "A", tmp_path / "B"
    fit(data, partitioned(folder, max_iter=2))
    again = partitioned(folder, resume=True)
    files = {path.name: unpack(path.read_bytes()) for path in folder.iterdir()}
    other.mkdir()
    (other / "block-0-2.npz").write_bytes((folder / "block-0-2.npz").read_bytes())

    def change(name, entry, value):
        driver, state = copy.deepcopy(files["driver.npz"]), copy.deepcopy(files[name])
        if name == "driver.npz":
            state["state"]["rounds"][entry] = value
        else:
            state["state"][entry][:] = value
            digest = hashlib.sha256(pack(state)).hexdigest()
            driver["state"]["rounds"]["files"][0] = [name, digest]
            (folder / "driver.npz").write_bytes(pack(driver))
        (folder / name).write_bytes(pack(state))

    for entry, value in (
        ("keys", 2**30),
        ("keys", -1),
        ("counts", 2**40),
        ("capacities", 2**40),
        ("capacities", 5),
        ("gram_sizes", -1),
        ("values", 0.7),
        ("losses", np.nan),
    ):
        change("block-0-2.npz", entry, value)
        with pytest.raises(ValueError, match=f"is damaged, .*{entry}"):
            fit(data, again)
    listed = files["driver.npz"]["state"]["rounds"]["files"]
    for name in ("../B/block-0-2.npz", "driver.npz", "block-1-2.npz"):
        change("driver.npz", "files", [[name, listed[0][1]], *listed[1:]])
        with pytest.raises(ValueError, match=r"lists .* as file 0"):
            fit(data, again)
    change("driver.npz", "files", listed[:2])
    with pytest.raises(ValueError, match="files must be 3 files of blocks, got 2"):
        fit(data, again)
    assert len(list(other.iterdir())) == 1
    change("driver.npz", "n_rounds", -1)
    with pytest.raises(ValueError, match="n_rounds must be from 0"):
        fit(data, again)
    # of another version, which may round otherwise
    for name, state in files.items():
        (folder / name).write_bytes(pack(state))
    old = pack({**files["driver.npz"], "library": "0.0"})
    (folder / "driver.npz").write_bytes(old)
    with pytest.warns(UserWarning, match=r"written by sksstruct 0\.0"):
        fit(data, again)


@pytest.mark.slow
@pytest.mark.parametrize("loss, solver", [*product(LOSSES, [None]), ("log", LBFGS())])
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_a_run_that_was_at_its_end_goes_on_no_further(data, loss, solver, tmp_path):
    """Whether it ended by its passes, with weights not reported yet, or by rounding."""
    options = {"solver": solver, "check_every": 4}
    for name, alpha, extra in (("passes", 0.05, {"max_iter": 6}), ("gain", 50.0, {})):
        extra = {**options, "keep_every": 1, "max_iter": 400, **extra}
        folder = tmp_path / name
        expected = fit(data, partitioned(**extra), loss=loss, alpha=alpha)
        fit(data, partitioned(folder, **extra), loss=loss, alpha=alpha)
        again = partitioned(folder, resume=True, **extra)
        found = fit(data, again, loss=loss, alpha=alpha)
        assert found.n_iter_ == expected.n_iter_
        assert np.array_equal(weights(found), weights(expected))
        assert found.dual_gap_ == expected.dual_gap_
        np.testing.assert_array_equal(found.history_["pass"], expected.history_["pass"])


@pytest.mark.parametrize("loss, solver", [("hinge", None), ("log", LBFGS())])
@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_a_full_disk_does_not_lose_the_model(
    data, loss, solver, lost, tmp_path, monkeypatch
):
    """Training goes on, and so may a run from the last checkpoint that was whole."""
    expected = fit(data, partitioned(solver=solver), loss=loss)
    write, tried, kept = Path.write_bytes, [], []

    def write_a_part(path, content):
        # once, in the second checkpoint; then there is room again
        if path.name.startswith(("block-1-4.", "sweep-3.")) and not tried:
            tried.append(path)
            write(path, content[:10])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(path, content)

    class Keeping(Losing):
        def keep(self):
            kept.append(True)
            return super().keep()

    executor = Keeping(0.05) if lost else None
    with monkeypatch.context() as patch, pytest.warns(UserWarning) as caught:
        patch.setattr(Path, "write_bytes", write_a_part)
        found = fit(
            data, partitioned(tmp_path, solver=solver, executor=executor), loss=loss
        )
    unwritten = [w for w in caught if "could not be written" in str(w.message)]
    assert unwritten and "No space left" in str(unwritten[0].message)
    assert np.array_equal(weights(found), weights(expected))
    names = {path.name for path in tmp_path.iterdir()}
    assert not any(name.endswith(".part") for name in names) and "driver.npz" in names
    # what was given up is gone, too, and nobody's memory fills instead of the disk
    assert len(names) == 4 and bool(kept) == (lost and solver is None)
    again = fit(data, partitioned(tmp_path, solver=solver, resume=True), loss=loss)
    assert np.array_equal(weights(again), weights(expected))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:training did not converge")
def test_rounding_errors_are_no_progress():
    """With tol=0 a run ends at a gap of rounding errors, and not after all passes."""
    n_rounds = []

    class Counting(Serial):
        def call(self, method, *common, **arguments):
            n_rounds.append(method == "advance")
            return super().call(method, *common, **arguments)

    X = np.random.default_rng(1).standard_normal((5, 3))
    solver = Partitioned(blocks=5, tol=0.0, executor=Counting())
    classifier = SSVMClassifier("multiclass", alpha=0.05, solver=solver, random_state=0)
    classifier.fit(X, np.arange(5) % 3)
    # 1000 passes of 2,600 rounds, with five blocks, where noise counted as a gain
    assert classifier.n_iter_ < 700 and sum(n_rounds) < 1800
    assert classifier.dual_gap_ < 1e-12


def test_an_interrupt_leaves_a_tagger(data):
    class Interrupting(Serial):
        n_calls = 0

        def call(self, method, *common, **arguments):
            self.n_calls += 1
            if self.n_calls == 12:
                raise KeyboardInterrupt
            return super().call(method, *common, **arguments)

    tagger = ChainCRF(0.05, solver=partitioned(executor=Interrupting()))
    with pytest.raises(KeyboardInterrupt, match="can be used"):
        tagger.fit(*data)
    assert 0.0 < tagger.dual_gap_ < 1.0 and len(tagger.predict(data[0])) == 23


def test_an_interrupt_between_weights_and_losses_leaves_no_bound(data, monkeypatch):
    added, n_added = Rounds._add, []

    def add_and_interrupt(rounds, change):
        of_sum = added(rounds, change)
        n_added.append(1)
        if len(n_added) == 7:
            raise KeyboardInterrupt
        return of_sum

    solver = partitioned(solver=BCFW.as_published(averaging=False))
    tagger = ChainCRF(0.05, solver=solver, random_state=0)
    monkeypatch.setattr(Rounds, "_add", add_and_interrupt)
    with pytest.raises(KeyboardInterrupt, match="can be used"):
        tagger.fit(*data)
    assert tagger.dual_gap_ == np.inf and len(tagger.predict(data[0])) == 23


def test_a_block_is_called_by_one_thread_at_a_time():
    class Block:
        n_calls, together = 0, False

        def work(self, seconds):
            self.together |= bool(self.n_calls)
            self.n_calls += 1
            time.sleep(seconds)
            self.n_calls -= 1

    block = Block()
    executor = Threads(2)
    executor.place([lambda: block])
    executor.call("work", 0.0)
    submit = executor._pool.submit

    def submit_and_interrupt(*job):
        submit(*job)
        raise KeyboardInterrupt

    # nobody knows of this job
    executor._pool.submit = submit_and_interrupt
    with pytest.raises(KeyboardInterrupt):
        executor.call("work", 0.1)
    executor._pool.submit = submit
    executor.call("work", 0.0)
    executor.close()
    assert not block.together


def test_the_lower_limit_of_caution_doubles_where_the_dual_gains_little():
    scaling = Scaling(8, adaptive=True)
    # changes that have nothing in common, and all of the promised gain
    scaling.update(squares=1.0, of_sum=1.0, gain=1.0, promised=1.0)
    assert scaling.value == pytest.approx(1.1)
    limits = []
    for _ in range(4):
        scaling.update(squares=1.0, of_sum=1.0, gain=0.05, promised=1.0)
        limits.append(scaling.value)
    assert limits == pytest.approx([2.2, 4.4, 8.0, 8.0])
    again = Scaling(8, adaptive=True)
    again.resume(Entries(scaling.state(), "sigma"))
    assert again.value == 8.0
    safe = Scaling(8, adaptive=False)
    safe.update(squares=1.0, of_sum=1.0, gain=1.0, promised=1.0)
    assert safe.value == 8.0


def test_states_are_kept_before_calls_take_much_memory(data, monkeypatch):
    """What lost blocks would repeat is limited by bytes, too, and changes no bit."""
    kept = []

    class Keeping(Losing):
        def keep(self):
            kept.append(True)
            return super().keep()

    def run(executor):
        solver = Partitioned(
            blocks=3, tol=0.0, max_iter=6, keep_every=100, executor=executor
        )
        with pytest.warns(UserWarning, match="did not converge"):
            return fit(data, solver)

    expected = weights(run(Serial()))
    assert np.array_equal(weights(run(Keeping(0.05))), expected) and not kept
    module = "sksstruct.solvers.partitioned.partitioned._MOST_BYTES"
    # less than a pass sends, which may be of any number of rounds
    monkeypatch.setattr(module, 1)
    found = run(Keeping(0.05))
    assert np.array_equal(weights(found), expected)
    assert len(kept) >= found.n_iter_
