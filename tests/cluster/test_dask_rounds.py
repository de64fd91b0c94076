"""Rounds on a cluster of processes: the bits of a local fit, whatever breaks."""

import threading
import time
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from sksstruct import ChainCRF
from sksstruct.solvers import LBFGS, Partitioned
from sksstruct.solvers.partitioned.blocks import Block

distributed = pytest.importorskip("distributed")
# a cluster leaves sockets to the garbage collector when it ends
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")

import sksstruct.dask._executor  # noqa: E402
import sksstruct.dask._host  # noqa: E402
import sksstruct.dask._train as training  # noqa: E402
from cluster.acting import ADVANCE, nothing, once_at_work, release, wait_for_word  # noqa: E402
from cluster.helpers import (  # noqa: E402
    CUTS,
    OPTIONS,
    B,
    N,
    counted_tasks,
    in_parts,
    local,
    same_bits,
)
from sksstruct.dask import DaskChainCRF, DaskExecutor  # noqa: E402
from sksstruct.dask._parts import as_parts  # noqa: E402


@pytest.mark.slow
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
    solver = Partitioned(solver=LBFGS(), blocks=B, tol=OPTIONS["tol"])
    expected = local(data, loss="log", solver=solver)
    tagger = DaskChainCRF(loss="log", solver="lbfgs", client=client, **OPTIONS)
    same_bits(tagger.fit(in_parts(data)), expected)
    assert tagger.history_["bytes_up"][-1] > 0


class OddError(ValueError):
    """An error of a block."""


def fail():
    error = OddError("an odd block")
    error.add_note("and a note")
    raise error


def fail_without_words():
    raise ValueError(threading.Lock())


@pytest.mark.slow
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
    acting(nothing, 1)
    tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data))
    same_bits(tagger, local(data))


@pytest.mark.slow
def test_a_worker_answers_while_a_round_is_at_work(client, data, acting, tmp_path):
    marker = tmp_path / "at work"
    acting(partial(wait_for_word, marker), 0)
    with once_at_work(marker, partial(client.run, release)):
        tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data))
    same_bits(tagger, local(data))


@pytest.mark.slow
def test_interrupts_in_a_round(client, data, acting, tmp_path, monkeypatch):
    marker, result, seen = tmp_path / "at work", DaskExecutor._result, []

    # Raised where the client waits. With a real signal, one run in hundreds failed, and
    # why is not known: perhaps it came in a destructor, whose errors Python ignores.
    def interrupted(executor, job, address):
        while not (job.done() or marker.exists()):
            time.sleep(0.01)
        if marker.exists() and not seen:
            seen.append(address)
            raise KeyboardInterrupt
        return result(executor, job, address)

    monkeypatch.setattr(DaskExecutor, "_result", interrupted)
    acting(partial(wait_for_word, marker), 0)
    tagger = DaskChainCRF(client=client, **OPTIONS)
    # the gap is computed before it ends, which waits for the round
    with once_at_work(marker, partial(client.run, release)):
        with pytest.raises(KeyboardInterrupt):
            tagger.fit(in_parts(data))
    # what was done before is there, and workers go on
    assert tagger.coef_.any()
    assert np.isfinite(tagger.dual_gap_)
    same_bits(DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data)), local(data))


BOTH = threading.Barrier(2)


def advance_together(block, *arguments):
    BOTH.wait(10)
    return ADVANCE(block, *arguments)


def test_threads_of_a_worker(data, monkeypatch):
    four = (data[0][: CUTS[4]], data[1][: CUTS[4]])
    solver = Partitioned(blocks=4, tol=OPTIONS["tol"])
    expected = local(four, solver=solver)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        # no array is too short for a part of its own
        monkeypatch.setattr(sksstruct.dask._host, "_LONG", 1)
        # each waits for the other
        monkeypatch.setattr(Block, "advance", advance_together)
        tagger = DaskChainCRF(client=client, **OPTIONS).fit(in_parts(data)[:4])
    same_bits(tagger, expected)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_client_that_is_closed_in_a_round(client, data, acting, tmp_path):
    marker = tmp_path / "at work"
    acting(partial(wait_for_word, marker), 0)
    other = distributed.Client(client.scheduler.address, set_as_default=False)
    with once_at_work(marker, other.close, partial(client.run, release)):
        with pytest.raises(RuntimeError, match="Client is closed"):
            DaskChainCRF(client=other, **OPTIONS).fit(in_parts(data))


@pytest.mark.slow
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


@pytest.mark.slow
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
