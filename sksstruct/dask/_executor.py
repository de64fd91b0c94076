"""Blocks on the workers of a Dask cluster, and what happens where workers are lost.

A block is made on a worker and stays there, with a host: an actor of Dask, which lives
as long as the client asks for it. Blocks are gone with the client, however that ends. A
task names the blocks it is for and the ticket of the call that changed each last. Where
a block is not in that state, because its worker was lost, or because the scheduler has
run a task a second time, the answer is that it is lost, and the driver makes it again
elsewhere.

Nothing of the result depends on where blocks are, or how many workers there are:
changes are added in the order of a `TreeSum`, of which a task adds what it can.
"""

import uuid
from collections import defaultdict
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import dask
import numpy as np
from distributed import KilledWorker, TimeoutError, wait
from threadpoolctl import ThreadpoolController

from sksstruct.solvers.partitioned.changes import TreeSum
from sksstruct.solvers.partitioned.executors import Executor

# Seconds to wait for a worker where there is none.
PATIENCE = 300
# Seconds between two times that a worker is looked for whose task takes long.
_LOOK = 3
# Shorter vectors than this go with the tasks, and not ahead of them.
_SMALL = 2**16

# Methods that keep or change states, from which later calls are repeated.
_STATES = "state", "save", "load"

# On a worker: its host of each run.
_HOSTS: WeakValueDictionary = WeakValueDictionary()


@dataclass
class Builder:
    """A function that makes a block on a worker, and its arguments.

    Parameters
    ----------
    function : callable
        ``function(shared, *inputs)`` returns a block. `shared` is a dict of the run,
        the same one for all blocks of a worker.
    inputs : tuple
        Arguments; futures among them stand for their results.
    """

    function: Any
    inputs: tuple = ()


@dataclass
class Snapshot:
    """Weights for the blocks, as what has changed since the last snapshot.

    Parameters
    ----------
    number : int
        Number of the snapshot; that of a worker must be this one, or the one before.
    values : ndarray of shape (n_weights,) or (n_rows, width)
        All weights, or those of the rows.
    rows : ndarray of int, default=None
        The rows that may have changed; None: all weights are there.
    """

    number: int
    values: np.ndarray
    rows: np.ndarray | None = None

    @property
    def nbytes(self):
        """Memory of the arrays."""
        return self.values.nbytes + (0 if self.rows is None else self.rows.nbytes)


class DaskExecutor(Executor):
    """Blocks on the workers of a cluster.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    """

    loses_blocks = True

    def __init__(self, client):
        super().__init__()
        self.client = client
        self._run = uuid.uuid4().hex
        self._ticket = 0
        # futures of the hosts, by the address of their worker
        self._hosts = {}
        self._n_snapshots, self._whole = 0, True

    # ---- where blocks are ----

    def place(self, builders):
        if not all(isinstance(each, Builder) for each in builders):
            raise TypeError(
                "DaskExecutor needs data in parts on the workers: use an estimator of "
                "sksstruct.dask"
            )
        self.builders = builders
        self.n_blocks = len(builders)
        # a worker, and which of its threads
        self._slots = [None] * self.n_blocks
        self._tickets = [None] * self.n_blocks
        self._assign(range(self.n_blocks))
        blocks = range(self.n_blocks)
        while lost := self._make(blocks):
            self._assign(lost)
            blocks = lost

    def rebuild(self, blocks):
        while blocks:
            self._assign(blocks)
            blocks = self._make(blocks)

    def _threads(self):
        """Threads of each worker, by its address; waits until there is one."""
        self.client.wait_for_workers(1, timeout=PATIENCE)
        return dict(sorted(self.client.nthreads().items()))

    def _assign(self, blocks):
        """Choose a thread for each of some blocks.

        Blocks go where their data are; those whose data are nowhere yet go, one after
        the other, to the threads that have fewest. Neighbors that share a thread are
        added there.
        """
        threads = self._threads()
        load = defaultdict(int)
        moving = set(blocks)
        for number, slot in enumerate(self._slots):
            if slot is not None and number not in moving:
                load[slot] += 1
        every = [(name, k) for name, count in threads.items() for k in range(count)]
        holders = self._holders(blocks)
        most = -(-self.n_blocks // len(every))
        for number in sorted(blocks):
            near = [slot for slot in every if slot[0] in holders[number]] or every
            # in this order, threads are filled with neighbors
            free = [slot for slot in near if load[slot] < most]
            slot = free[0] if free else min(near, key=load.__getitem__)
            self._slots[number] = slot
            load[slot] += 1

    def _holders(self, blocks):
        """Workers that have the data of each block."""
        futures = {
            number: [each for each in self.builders[number].inputs if _is_future(each)]
            for number in blocks
        }
        every = [future for some in futures.values() for future in some]
        places = self.client.who_has(every) if every else {}
        return {
            number: {name for each in some for name in places.get(each.key, ())}
            for number, some in futures.items()
        }

    def _by_slot(self, blocks):
        groups = defaultdict(list)
        for number in blocks:
            groups[self._slots[number]].append(number)
        return groups

    def _submit(self, name, slot, function, *arguments, **options):
        """A task with a name for the dashboard, for one worker while that is there."""
        self._ticket += 1
        # weights are long, and no mistake
        with dask.config.set(
            {"distributed.admin.large-graph-warning-threshold": "1TB"}
        ):
            return self.client.submit(
                function,
                *arguments,
                key=f"sksstruct-{name}-{self._ticket}-{self._run}",
                workers=None if slot is None else [slot[0]],
                # elsewhere, where nobody has the blocks, they are lost
                allow_other_workers=slot is not None,
                pure=False,
                **options,
            )

    def _find_hosts(self, blocks):
        """Make hosts on the workers of some blocks, where there are none yet."""
        slots = {self._slots[number] for number in blocks}
        for slot in sorted({(name, 0) for name, _ in slots if name not in self._hosts}):
            job = self._submit("host", slot, _Host, self._run, actor=True)
            if self._result(job, slot) is not None:
                self._hosts[slot[0]] = job

    def _make(self, blocks):
        """Make blocks in the states that were kept; return those that were lost again.

        Tasks that end up on another worker than theirs have made blocks all the same.
        """
        jobs = {}
        self._find_hosts(blocks)
        for number in blocks:
            builder = self.builders[number]
            self._tickets[number] = self._ticket + 1
            jobs[number] = self._submit(
                "build", self._slots[number], _make_block, self._run, number,
                self._ticket + 1, builder.function, self._kept.get(number),
                *builder.inputs,
            )  # fmt: skip
        lost = []
        for number, job in jobs.items():
            where = self._result(job, self._slots[number])
            if where is None:
                lost.append(number)
                # a worker that is back under its old address has no host any more
                self._hosts.pop(self._slots[number][0], None)
            else:
                self._slots[number] = (where, self._slots[number][1])
        return lost

    # ---- calls ----

    def snapshot(self, v, changed, width):
        self._n_snapshots += 1
        # who repeats calls since states were kept begins with the first of them
        whole, self._whole = self._whole, False
        if whole or changed is None or 2 * len(changed) * width > len(v):
            return Snapshot(self._n_snapshots, v.copy())
        return Snapshot(self._n_snapshots, v.reshape(-1, width)[changed], changed)

    def call(self, method, *common, blocks=None, each=None, total=None):
        self._whole |= method in _STATES
        numbers = list(range(self.n_blocks) if blocks is None else blocks)
        groups = self._by_slot(numbers)
        sent = self._send(common, {slot[0] for slot in groups})
        jobs = []
        for slot, group in groups.items():
            tickets = {number: self._tickets[number] for number in group}
            own = None if each is None else {number: each[number] for number in group}
            adds = self.n_blocks if total is not None else None
            job = self._submit(
                method, slot, _call_blocks, self._run, tickets, self._ticket + 1,
                method, own, adds, *sent,
            )  # fmt: skip
            jobs.append((job, slot))
            for number in group:
                self._tickets[number] = self._ticket
        values = {}
        for job, slot in jobs:
            answer = self._result(job, slot)
            if answer is None:
                continue
            some, nodes = answer
            values.update(some)
            for node, change in nodes.items():
                self.received += change.nbytes
                total.add(_writable(change), node=node)
        # now: weights are large, and a time-out leaves cycles that keep its frames
        for job in [*(job for job, _ in jobs), *filter(_is_future, sent)]:
            job.release()
        return {number: values[number] for number in numbers if number in values}

    def _result(self, job, slot):
        """The result of a task; None where it was lost with its worker."""
        while True:
            try:
                wait(job, timeout=_LOOK)
                # done: a message that takes long is no sign of a lost worker
                return job.result(timeout=PATIENCE)
            except (CancelledError, KilledWorker):
                return None
            except TimeoutError:
                if job.status == "error":
                    # of the task itself
                    raise
            # without any worker, Dask waits for the one that is gone, and no other
            if slot[0] not in self.client.nthreads():
                job.cancel()
                return None

    def _send(self, common, workers):
        """Arguments for the tasks: long vectors go to each worker once.

        They are results of a task, which the workers fetch from each other, and which
        is repeated where its worker is lost. Data that are scattered would be gone.
        """
        out = []
        for value in common:
            if isinstance(value, np.ndarray | Snapshot):
                self.sent += value.nbytes * len(workers)
                if value.nbytes >= _SMALL:
                    value = self._submit("send", None, _hold, value)
            out.append(value)
        return out

    def close(self):
        super().close()
        self._hosts = {}


def _is_future(value):
    return hasattr(value, "key") and hasattr(value, "result")


def _writable(change):
    """A change that may be added to: arrays may come as read-only messages."""
    if isinstance(change, np.ndarray) and not change.flags.writeable:
        return change.copy()
    return change


# ---- on the workers ----


@cache
def _controller():
    return ThreadpoolController()


class _Host:
    """Has the blocks of a run that are on this worker.

    Attributes
    ----------
    blocks : dict of int to tuple
        The ticket of the last call, and the block, by its number.
    shared : dict
        What all blocks of the worker use.
    """

    def __init__(self, run):
        self.blocks, self.shared = {}, {}
        self._lock, self._weights, self._number = Lock(), None, -1
        # the first one stays, where the scheduler makes that of a lost worker here
        _HOSTS.setdefault(run, self)

    def read(self, snapshot):
        """The weights of a snapshot; None where the one before it was missed."""
        # threads that share them are all at the same snapshot
        with self._lock:
            if self._number == snapshot.number:
                return self._weights
            if snapshot.rows is None:
                self._weights = np.array(snapshot.values)
            elif self._number == snapshot.number - 1:
                width = snapshot.values.shape[1]
                self._weights.reshape(-1, width)[snapshot.rows] = snapshot.values
            else:
                return None
            self._number = snapshot.number
            return self._weights


def _make_block(run, number, ticket, function, state, *inputs):
    """Make a block; return where it is, or None where there is no host."""
    from distributed import get_worker

    host = _HOSTS.get(run)
    if host is None:
        return None
    block = function(host.shared, *inputs)
    if state is not None:
        block.restore(state)
    host.blocks[number] = ticket, block
    return get_worker().address


def _call_blocks(run, tickets, ticket, method, each, adds, *common):
    """Call a method of some blocks; those that are not in the state asked for are lost.

    Returns
    -------
    values : dict
        What the method returned, by number of the block.
    nodes : dict
        Sums of changes, as in `TreeSum`; none unless `adds` is the number of blocks.
    """
    values, total, host = {}, TreeSum(adds or 1), _HOSTS.get(run)
    blocks = {} if host is None else host.blocks
    if common and isinstance(common[0], Snapshot) and host is not None:
        common = (host.read(common[0]), *common[1:])
        if common[0] is None:
            blocks = {}
    for number, expected in tickets.items():
        # taken out while it changes: an error leaves no block in an unknown state
        held, block = blocks.pop(number, (None, None))
        if held != expected:
            continue
        own = () if each is None else each[number]
        # sums must not depend on how many threads there are
        with _controller().limit(limits=1, user_api="blas"):
            value = getattr(block, method)(*common, *own)
        if adds is not None:
            value, change = value
            total.add(change, number)
        values[number] = value
        blocks[number] = ticket, block
    return values, total.nodes


def _hold(value):
    """An argument of later tasks."""
    return value
