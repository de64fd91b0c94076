"""Training on a cluster of processes: the bits of a local fit, whatever happens."""

import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import partial

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from sksstruct import (
    ChainCRF,
    LPMAPPredictor,
    MultilabelPairwise,
    SSVMClassifier,
    SSVMPathCV,
)
from sksstruct.factor_graphs import FactorGraph
from sksstruct.feature_extraction import SequenceHasher, SequenceVectorizer
from sksstruct.solvers import BCFW, LBFGS, Partitioned
from sksstruct.solvers.partitioned.blocks import Block
from sksstruct.solvers.partitioned.executors import Serial
from sksstruct.utils.packed import PackedSequences

distributed = pytest.importorskip("distributed")
# a cluster leaves sockets to the garbage collector when it ends
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

import dask  # noqa: E402
import dask.array as da  # noqa: E402
import dask.bag as db  # noqa: E402

import sksstruct.dask._executor  # noqa: E402
import sksstruct.dask._host  # noqa: E402
import sksstruct.dask._train as training  # noqa: E402
from sksstruct.dask import (  # noqa: E402
    DaskChainCRF,
    DaskExecutor,
    DaskMultilabelPairwise,
    DaskSequenceVectorizer,
    DaskSSVMClassifier,
    Shards,
    apply,
)
from sksstruct.dask._parts import as_parts  # noqa: E402

N, B = 60, 5
# a dozen rounds
OPTIONS = {"alpha": 0.5, "tol": 0.02, "random_state": 0}
CUTS = [N * k // B for k in range(B + 1)]
PARTS = list(zip(CUTS[:-1], CUTS[1:], strict=True))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 12, rng.integers(1, 7)) for _ in range(N)]
    X = [sparse.csr_array(np.eye(12)[row] + 0.1 * (row[:, None] > 5)) for row in words]
    y = [["abc"[(w + rng.integers(0, 2)) % 3] for w in row] for row in words]
    return X, y


def in_parts(data):
    X, y = data
    return [dask.delayed((X[a:b], y[a:b]), traverse=False) for a, b in PARTS]


def local(data, n_jobs=None, **parameters):
    solver = Partitioned(blocks=B, tol=OPTIONS["tol"])
    options = {**OPTIONS, "solver": solver, "n_jobs": n_jobs, **parameters}
    return ChainCRF(**options).fit(*data)


def same_bits(one, other):
    assert one.classes_.tolist() == other.classes_.tolist()
    for name in ("coef_", "intercept_", "start_", "end_", "transitions_"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()
    assert one.n_iter_ == other.n_iter_
    assert one.dual_gap_ == other.dual_gap_


class Killing(DaskExecutor):
    """Kills a worker while a round is under way."""

    kill_at = frozenset()
    seen = Counter()

    def call(self, method, *common, **options):
        self.seen[method] += 1
        if method == "advance" and self.seen[method] in self.kill_at:
            name = self._slots[0][0]
            pid = self.client.run(os.getpid, workers=[name])[name]
            threading.Timer(0.003, os.kill, (pid, signal.SIGKILL)).start()
        return super().call(method, *common, **options)


@pytest.mark.parametrize("loss", ["hinge", "log"])
def test_same_bits_anywhere(client, data, loss, monkeypatch):
    expected = local(data, loss=loss)
    same_bits(local(data, loss=loss, n_jobs=2), expected)
    workers = client.nthreads()
    for n_workers in (1, 2):
        some = dict(sorted(workers.items())[:n_workers])
        monkeypatch.setattr(DaskExecutor, "_threads", lambda self, some=some: some)
        tagger = DaskChainCRF(loss=loss, client=client, **OPTIONS)
        same_bits(tagger.fit(in_parts(data)), expected)
    assert tagger.history_["bytes_up"][-1] > 0


def test_gradients_are_added(client, data):
    solver = Partitioned(LBFGS(), B, tol=OPTIONS["tol"])
    expected = local(data, loss="log", solver=solver)
    tagger = DaskChainCRF(loss="log", solver="lbfgs", client=client, **OPTIONS)
    same_bits(tagger.fit(in_parts(data)), expected)
    assert tagger.history_["bytes_up"][-1] > 0


def test_killed_workers_change_nothing(client, data, monkeypatch):
    monkeypatch.setattr(training, "DaskExecutor", Killing)
    # of two workers: soon there is none left for a while
    monkeypatch.setattr(Killing, "kill_at", {2, 6})
    monkeypatch.setattr(Killing, "seen", Counter())
    solver = Partitioned(tol=0.02, keep_every=3)
    tagger = DaskChainCRF(client=client, **{**OPTIONS, "solver": solver})
    tagger.fit(in_parts(data))
    same_bits(tagger, local(data))
    # states were kept, blocks made again, and rounds repeated
    assert Killing.seen["state"] >= 1
    assert Killing.seen["advance"] > tagger.n_iter_


def test_only_what_has_changed_is_sent(client, monkeypatch):
    rng = np.random.default_rng(0)
    words = [rng.integers(0, 4000, rng.integers(1, 4)) for _ in range(N)]
    X = [sparse.eye_array(4000, format="csr")[row] for row in words]
    y = [["abc"[w % 3] for w in row] for row in words]
    monkeypatch.setattr(training, "DaskExecutor", Killing)
    monkeypatch.setattr(Killing, "kill_at", {5})
    monkeypatch.setattr(Killing, "seen", Counter())
    solver = Partitioned(tol=0.02, keep_every=3)
    tagger = DaskChainCRF(client=client, **{**OPTIONS, "solver": solver})
    tagger.fit(in_parts((X, y)))
    same_bits(tagger, local((X, y)))
    # all weights are sent when states were kept, and to the worker that repeats rounds
    whole = 2 * 8 * tagger.coef_.base.size
    sent = tagger.history_["bytes_down"][-1]
    assert whole < sent < Killing.seen["advance"] * whole / 3


# ---- rounds are messages to the workers, and no tasks ----

ADVANCE = Block.advance
RELEASED, BOTH = threading.Event(), threading.Barrier(2)


class OddError(ValueError):
    """An error of a block."""


def die_once(marker):
    # blocks that are made elsewhere repeat the round
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def fail():
    error = OddError("an odd block")
    error.add_note("and a note")
    raise error


def fail_without_words():
    raise ValueError(threading.Lock())


def wait_for_word():
    assert RELEASED.wait(20)


def release():
    RELEASED.set()


def patch_advance(act, number):
    """Let a block do something else first in its fourth round."""

    def advance(self, v, sigma, turn, changed=None):
        if turn.round == 4 and self.number == number:
            act()
        return ADVANCE(self, v, sigma, turn, changed)

    Block.advance = advance


def restore_advance():
    Block.advance = ADVANCE
    RELEASED.clear()


@pytest.fixture
def acting(client):
    """Lets a block on the workers do something else in its fourth round."""
    client.wait_for_workers(2, timeout=60)
    yield partial(client.run, patch_advance)
    client.run(restore_advance)


def test_a_worker_that_dies_in_a_round(client, data, tmp_path, acting):
    acting(partial(die_once, tmp_path / "dead"), 0)
    pids = set(client.run(os.getpid).values())
    tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data))
    same_bits(tagger, local(data))
    client.wait_for_workers(2, timeout=60)
    assert len(pids & set(client.run(os.getpid).values())) == 1


@pytest.mark.parametrize(
    "act, kind, text",
    [
        (fail, OddError, "^an odd block"),
        # what cannot be sent comes as text
        (fail_without_words, Exception, "lock"),
    ],
)
def test_errors_of_rounds(client, data, acting, act, kind, text):
    acting(act, 1)
    with pytest.raises(kind, match=text) as caught:
        DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data))
    if kind is OddError:
        assert type(caught.value) is OddError
        assert caught.value.__notes__ == ["and a note"]
        names = [entry.name for entry in caught.traceback]
        assert "fail" in names
    client.run(restore_advance)
    tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data))
    same_bits(tagger, local(data))


def test_a_worker_answers_while_a_round_is_at_work(client, data, acting):
    acting(wait_for_word, 0)
    timer = threading.Timer(1.0, client.run, (release,))
    timer.start()
    tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data))
    timer.join()
    same_bits(tagger, local(data))


def test_interrupts_in_a_round(client, data, acting):
    acting(wait_for_word, 0)
    # the gap is computed before it ends, which waits for the round
    timers = [
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)),
        threading.Timer(1.0, client.run, (release,)),
    ]
    for timer in timers:
        timer.start()
    tagger = DaskChainCRF(client=client, **OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        tagger.fit(in_parts(data))
    for timer in timers:
        timer.join()
    # what was done before is there, and workers go on
    assert tagger.coef_.any()
    assert np.isfinite(tagger.dual_gap_)
    same_bits(DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data)), local(data))


def advance_together(block, *arguments):
    BOTH.wait(10)
    return ADVANCE(block, *arguments)


def test_threads_of_a_worker(data, monkeypatch):
    four = (data[0][: CUTS[4]], data[1][: CUTS[4]])
    solver = Partitioned(blocks=4, tol=OPTIONS["tol"])
    expected = local(four, solver=solver)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        # no array is too short for a part of its own
        monkeypatch.setattr(sksstruct.dask._host, "_LONG", 1)
        # each waits for the other
        monkeypatch.setattr(Block, "advance", advance_together)
        tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data)[:4])
    same_bits(tagger, expected)


def test_workers_that_are_out_of_reach(client, data, monkeypatch):
    names = counted_tasks(monkeypatch)
    expected = local(data)

    async def nowhere(executor, address):
        return False

    with monkeypatch.context() as patch:
        patch.setattr(DaskExecutor, "_reach", nowhere)
        tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data))
        same_bits(tagger, expected)
        assert names["advance"] >= 2 * tagger.n_iter_
    # and where there are too many of them for long vectors
    names.clear()
    monkeypatch.setattr(sksstruct.dask._executor, "_FEW", 1)
    monkeypatch.setattr(sksstruct.dask._executor, "_SMALL", 1)
    same_bits(DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data)), expected)
    assert names["advance"] >= 2 * tagger.n_iter_
    assert names["send"] >= tagger.n_iter_


def counted_tasks(monkeypatch):
    names, submit = Counter(), DaskExecutor._submit

    def count(executor, name, *arguments, **options):
        names[name] += 1
        return submit(executor, name, *arguments, **options)

    monkeypatch.setattr(DaskExecutor, "_submit", count)
    return names


@pytest.mark.parametrize("broken", ["connection", "actor"])
def test_what_breaks_on_the_way(client, data, monkeypatch, broken):
    names, ask, seen = counted_tasks(monkeypatch), DaskExecutor._ask, Counter()

    async def interrupted(executor, link, address, call, common):
        seen["calls"] += 1
        number = seen["calls"]
        answer = await ask(executor, link, address, call, common)
        if number == 7:
            # after the work was done: the blocks are ahead of what the driver knows
            link.direct = False
            return None
        return answer

    def forget(dask_worker):
        # as a worker that is back under its old address
        dask_worker.state.actors.clear()

    async def forgotten(executor, link, address, call, common):
        seen["calls"] += 1
        if seen["calls"] == 7:
            await executor.client.run(forget, workers=[address])
        return await ask(executor, link, address, call, common)

    change = interrupted if broken == "connection" else forgotten
    monkeypatch.setattr(DaskExecutor, "_ask", change)
    tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data))
    same_bits(tagger, local(data))
    assert names["build"] > B
    assert (names["advance"] > 0) == (broken == "connection")


def test_data_in_any_form(client, data, tmp_path):
    expected = local(data)
    X, y = data
    for k, (a, b) in enumerate(PARTS):
        packed = PackedSequences(sparse.vstack(X[a:b]), cumulated(y[a:b]))
        packed.save(tmp_path / str(k), y[a:b])

    def load(k):
        return PackedSequences.open(tmp_path / str(k), labels=True)

    bags = [
        db.from_delayed([dask.delayed(values[a:b]) for a, b in PARTS])
        for values in (X, y)
    ]
    tagger = DaskChainCRF(client=client, **OPTIONS)
    for form in (bags, [Shards(load, B)], [client.compute(in_parts(data))]):
        same_bits(clone(tagger).fit(*form), expected)
    # parts that are empty or of weight zero are no blocks
    empty = dask.delayed(([], []))
    nothing = dask.delayed((X[:2], y[:2], [0.0, 0.0]))
    parts = [empty, *in_parts(data)[:3], nothing, *in_parts(data)[3:]]
    same_bits(tagger.fit(parts), expected)
    assert tagger.score(parts) == pytest.approx(expected.score(X, y))
    assert [row.tolist() for row in tagger.predict(bags[0]).compute()] == [
        row.tolist() for row in expected.predict(X)
    ]
    lazy = tagger.predict(Shards(load, B))
    assert lazy[1].compute()[0].tolist() == expected.predict(X[CUTS[1] :])[0].tolist()
    again = pickle.loads(pickle.dumps(tagger))
    assert again.client is None
    same_bits(again.to_local(), expected)
    assert type(tagger.to_local()) is ChainCRF


def cumulated(y):
    return np.concatenate([[0], np.cumsum([len(row) for row in y])])


def test_weights_are_those_of_the_whole(client, data):
    X, y = data
    weight = np.random.default_rng(1).integers(0, 3, N).astype(float)
    options = {**OPTIONS, "class_weight": "balanced"}
    solver = Partitioned(blocks=1, tol=OPTIONS["tol"])
    expected = ChainCRF(**options, solver=solver).fit(X, y, weight)
    parts = [dask.delayed((X, y, weight))]
    tagger = DaskChainCRF(client=client, **options).fit(parts)
    # the mean length is added in another order: optima agree, and not bits
    assert tagger.objective_ == pytest.approx(expected.objective_, abs=0.02)
    assert tagger.n_seen_ == expected.n_seen_
    cut = [dask.delayed((X[a:b], y[a:b], weight[a:b])) for a, b in PARTS]
    tagger.fit(cut)
    assert tagger.objective_ == pytest.approx(expected.objective_, abs=0.02)
    assert tagger.score(cut) == pytest.approx(tagger.to_local().score(X, y, weight))


def test_arrays(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = np.where(X[:, 0] > X[:, 1], "u", np.where(X[:, 2] > 0, "v", "w"))
    rows = da.from_array(X, chunks=(30, 4))
    labels = da.from_array(y, chunks=30)
    for loss in ("hinge", "log"):
        classifier = DaskSSVMClassifier(
            alpha=0.1, loss=loss, random_state=0, client=client
        )
        classifier.fit(rows, labels)
        expected = SSVMClassifier(
            alpha=0.1, loss=loss, solver=Partitioned(blocks=3), random_state=0
        ).fit(X, y)
        assert classifier.coef_.tobytes() == expected.coef_.tobytes()
    np.testing.assert_array_equal(
        classifier.predict(rows).compute(), expected.predict(X)
    )
    np.testing.assert_array_equal(
        classifier.predict_proba(rows).compute(), expected.predict_proba(X)
    )
    assert classifier.score(rows, labels) == pytest.approx(expected.score(X, y))
    with pytest.raises(ValueError, match="rows must be whole"):
        classifier.fit(rows.rechunk((30, 2)), labels)


def test_label_sets(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    Y = (X @ rng.normal(size=(3, 4)) > 0).astype(int)
    Y[:, 3] = Y[:, 0]
    rows, labels = da.from_array(X, chunks=(20, 3)), da.from_array(Y, chunks=(20, 4))
    options = {"loss": "structured_hinge", "alpha": 0.05, "random_state": 0}
    classifier = DaskMultilabelPairwise(
        interaction_scaling=0.5, client=client, **options
    ).fit(rows, labels)
    solver = Partitioned(blocks=3, tol=classifier.tol)
    expected = MultilabelPairwise(interaction_scaling=0.5, solver=solver, **options)
    expected.fit(X, Y)
    for name in ("coef_", "intercept_", "interactions_"):
        assert getattr(classifier, name).tobytes() == getattr(expected, name).tobytes()
    found = classifier.predict(rows).compute()
    np.testing.assert_array_equal(found, expected.predict(X))
    assert classifier.score(rows, labels) == pytest.approx(expected.score(X, Y))
    for change in ({"loss": "log"}, {"interaction_scaling": "auto"}):
        with pytest.raises(ValueError, match=next(iter(change))):
            clone(classifier).set_params(**change).fit(rows, labels)


def test_features_of_bags(client):
    sequences = [[[f"w{(3 * i + k) % 7}"] for k in range(3)] for i in range(20)]
    bag = db.from_sequence(sequences, npartitions=10)
    vectorizer = DaskSequenceVectorizer(min_count=8, client=client)
    rows = vectorizer.fit_transform(bag)
    expected = SequenceVectorizer(min_count=8).fit(sequences)
    assert vectorizer.vocabulary_ == expected.vocabulary_
    found = sparse.vstack(rows.compute())
    assert abs(found - expected.transform(sequences).values).max() == 0.0
    hashed = apply(SequenceHasher(n_features=32), bag, "transform")
    y = db.from_sequence([["a", "b", "a"]] * 20, npartitions=10)
    for X in (rows, hashed):
        tagger = DaskChainCRF(alpha=0.1, random_state=0, client=client).fit(X, y)
        assert tagger.score(X, y) == 1.0


def test_best_states_of_a_bag_of_graphs(client):
    graphs = [FactorGraph([[0.0, score], [0.5, 0.0]]) for score in (1.0, -1.0, 2.0)]
    labelings = apply(LPMAPPredictor(), db.from_sequence(graphs, npartitions=2))
    assert [y.tolist() for y in labelings.compute()] == [[1, 0], [0, 0], [1, 0]]


def test_searches_on_the_cluster(client, data):
    X, y = data
    search = GridSearchCV(ChainCRF(random_state=0), {"alpha": [0.1, 0.01]}, cv=2)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    path = SSVMPathCV(SSVMClassifier(random_state=0), alpha_min=0.05, cv=2)
    expected = clone(path)
    labels = (rows[:, 0] > 0).astype(int)
    with joblib.parallel_config("dask"):
        search.set_params(n_jobs=2).fit(X, y)
        path.set_params(n_jobs=2).fit(rows, labels)
    assert search.best_score_ > 0.4
    assert path.alpha_ == expected.fit(rows, labels).alpha_


_KILLED = """
import os, pickle, signal, sys
import dask, distributed
from sksstruct.dask import DaskChainCRF, DaskExecutor

address, path = sys.argv[1:]
with open(path, "rb") as file:
    parameters, parts = pickle.load(file)
called, n_rounds = DaskExecutor.call, 0

def call(self, method, *common, **options):
    global n_rounds
    n_rounds += method == "advance"
    if n_rounds == 6:
        os.kill(os.getpid(), signal.SIGKILL)
    return called(self, method, *common, **options)

DaskExecutor.call = call
client = distributed.Client(address)
parts = [dask.delayed(part, traverse=False) for part in parts]
DaskChainCRF(client=client, **parameters).fit(parts)
"""


def n_hosts():
    return len(sksstruct.dask._host._HOSTS)


def test_a_client_that_is_killed(client, data, tmp_path, monkeypatch):
    X, y = data
    solver = Partitioned(
        tol=0.02, keep_every=2, checkpoint=f"file://{tmp_path}/states", rounds=2
    )
    parameters = {**OPTIONS, "solver": solver}
    script = tmp_path / "killed.py"
    script.write_text(_KILLED)
    with open(tmp_path / "data", "wb") as file:
        pickle.dump((parameters, [(X[a:b], y[a:b]) for a, b in PARTS]), file)
    command = [sys.executable, script, client.scheduler.address, tmp_path / "data"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # earlier tests, that ended with errors, may have left some
    before = client.run(n_hosts)
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == -signal.SIGKILL, done.stderr
    # what it had on the workers is gone with it
    for _ in range(400):
        after = client.run(n_hosts)
        if all(after[name] <= before[name] for name in before):
            break
        time.sleep(0.05)
    else:
        raise AssertionError("the blocks of a killed client are still there")
    # another client goes on, and loses a worker
    monkeypatch.setattr(training, "DaskExecutor", Killing)
    monkeypatch.setattr(Killing, "kill_at", {2})
    monkeypatch.setattr(Killing, "seen", Counter())
    solver.set_params(resume=True)
    tagger = DaskChainCRF(client=client, **parameters).fit(in_parts(data))
    whole = Partitioned(blocks=B, tol=0.02, rounds=2)
    expected = local(data, solver=whole)
    same_bits(tagger, expected)
    assert Killing.seen["load"] == 2
    # it is not there any more
    next((tmp_path / "states").glob("block-1-*")).unlink()
    with pytest.raises(ValueError, match=r"block-1-.* is missing from it"):
        tagger.fit(in_parts(data))
    shutil.rmtree(tmp_path / "states")
    with pytest.raises(ValueError, match="there is no checkpoint in 'file://"):
        tagger.fit(in_parts(data))


@pytest.mark.parametrize(
    "parameters, change, message",
    [
        ({"solver": "lbfgs"}, None, "LBFGS needs a gradient"),
        ({"solver": Partitioned(blocks=3)}, None, "the parts of the data are the bl"),
        ({"solver": Partitioned(executor=Serial())}, None, "executor must be None"),
        ({"solver": BCFW(sampling="x")}, None, "sampling"),
        ({"warm_start": True}, None, "warm_start=True needs all dual"),
        ({"alpha": -1.0}, None, "alpha"),
        ({}, lambda X, y: (X, y[1:]), "y has 11 sequences, but X has 12"),
        ({}, lambda X, y: ([x[:, :5] for x in X], y), "part 2 of X has 5 features, b"),
        ({}, lambda X, y: (X, [[*r[1:], None] for r in y]), "missing label"),
        (
            {"loss": "log"},
            lambda X, y: (X, [[*r[:-1], None] if len(r) > 1 else r for r in y]),
            "labels that were not observed make loss='log' non-convex",
        ),
        ({}, lambda X, y: X, "a part must be a tuple"),
    ],
)
def test_errors(client, data, parameters, change, message):
    parts = in_parts(data)
    if change is not None:
        X, y = data
        a, b = PARTS[2]
        parts[2] = dask.delayed(change)(X[a:b], y[a:b])
    tagger = DaskChainCRF(client=client, **parameters)
    with pytest.raises((ValueError, TypeError), match=message):
        tagger.fit(parts)
    assert not hasattr(tagger, "coef_")


def test_forms_that_are_none(client, data):
    tagger = DaskChainCRF(client=client)
    with pytest.raises(TypeError, match=r"X is a list: pass a dask bag"):
        tagger.fit(*data)
    with pytest.raises(ValueError, match="y is None"):
        tagger.fit(db.from_sequence(data[0]))
    with pytest.raises(ValueError, match="y must be None: Shards have"):
        tagger.fit(Shards(print, 2), data[1])
    with pytest.raises(ValueError, match="y has 2 partitions, but X has 3"):
        tagger.fit(
            db.from_sequence(data[0], npartitions=3),
            db.from_sequence(data[1], npartitions=2),
        )
    with pytest.raises(ValueError, match="n_shards must be at least 1"):
        Shards(print, 0)
    with pytest.raises(TypeError, match=r"client must be a distributed\.Client"):
        DaskChainCRF(client="tcp://host").fit(in_parts(data))
    for method in (tagger.predict, tagger.score):
        with pytest.raises(NotFittedError, match="This DaskChainCRF"):
            method(in_parts(data))
    with pytest.raises(ValueError, match="X must be 2-D, got 1-D"):
        apply(SSVMClassifier(), da.zeros(3))
    with pytest.raises(TypeError, match="data in parts on the workers"):
        local(data, solver=Partitioned(executor=DaskExecutor(client)))


def test_a_client_that_is_closed_in_a_round(client, data, acting):
    acting(wait_for_word, 0)
    other = distributed.Client(client.scheduler.address, set_as_default=False)
    timer = threading.Timer(1.0, other.close)
    timer.start()
    with pytest.raises(RuntimeError, match="Client is closed"):
        DaskChainCRF(client=other, **OPTIONS).fit(in_parts(data))
    timer.join()
    client.run(release)


def test_a_client_that_is_closed_meanwhile(client, data, monkeypatch):
    other = distributed.Client(client.scheduler.address, set_as_default=False)

    def call(executor, method, *common, **options):
        if method == "advance":
            other.close()
        return called(executor, method, *common, **options)

    called = DaskExecutor.call
    monkeypatch.setattr(DaskExecutor, "call", call)
    tagger = DaskChainCRF(client=other, **OPTIONS)
    with pytest.raises(RuntimeError, match="Client is closed"):
        tagger.fit(in_parts(data))


def test_keys_of_two_models_with_one_address(client, data, monkeypatch):
    # as in two processes that use the same cluster
    monkeypatch.setattr(training, "id", lambda each: 1, raising=False)
    parts = as_parts(in_parts(data), None, None, client)
    few = replace(parts, inputs=parts.inputs[:2])
    kept = []
    monkeypatch.setattr(training, "wait", kept.extend)
    spec = ChainCRF()._model()
    assert training.learn(client, spec, few).n_examples == CUTS[2]
    assert training.learn(client, spec, parts).n_examples == N


def test_without_dask_it_says_what_to_install():
    code = (
        "import sys; sys.modules['dask'] = None; import sksstruct\n"
        "try: import sksstruct.dask\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    )
    assert "pip install 'sksstruct[dask]'" in done.stdout


def test_the_only_worker_is_gone_again(client, monkeypatch):
    """Between being waited for and being looked at; nannies bring it back."""
    found = client.nthreads()
    answers = iter([{}, {}, found])
    monkeypatch.setattr(client, "nthreads", lambda: next(answers))
    executor = DaskExecutor(client)
    assert executor._threads() == dict(sorted(found.items()))
