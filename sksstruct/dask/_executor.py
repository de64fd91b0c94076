"""Executor that keeps blocks on the workers of a Dask cluster, and rebuilds lost ones.

A block is made on a worker and stays there, in a host: an actor of Dask, which lives as
long as the client holds its future. Blocks are released with the client, however the
client ends. A call names its blocks, and for each block the ticket of the last call
that changed it. If a block does not have this ticket, because its worker was lost or
the scheduler has run a task twice, the host answers that the block is lost, and the
driver makes the block again on another worker.

Most calls are tasks. A call of a round of the solver is a message that the client sends
directly to each host, if it reaches the worker: rounds are many and may be short, and a
task costs the client and the worker about 10 ms.

The result depends neither on the placement of blocks nor on the number of workers:
changes are summed in the order of a `TreeSum`, part of which each worker computes.
"""

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import dask
import numpy as np
from distributed import Client, KilledWorker, TimeoutError, wait
from distributed.core import clean_exception
from distributed.protocol import to_serialize

from sksstruct.dask._host import (
    Call,
    Host,
    Snapshot,
    call_host,
    hold,
    make_block,
    pack,
    unpack,
)
from sksstruct.solvers.partitioned.executors import Executor

# Seconds to wait for a worker if the cluster has none, and for the transfer of the
# result of a finished task.
PATIENCE = 300
# Seconds between two checks whether the worker of a long task still exists.
_LOOK = 1
# Seconds to wait for the first answer of a worker that may be unreachable.
_REACH = 5
# Vectors of at least this many bytes are sent once per worker, before the calls.
_SMALL = 2**16
# Largest number of workers to which the client itself sends long vectors; with more
# workers, the workers fetch the vectors from each other.
_FEW = 16

# Methods that save or load states of blocks. After blocks are rebuilt, all calls since
# the last call of one of these methods are repeated.
_STATES = "state", "save", "load"


@dataclass
class Builder:
    """A function that makes a block on a worker, and its arguments.

    Parameters
    ----------
    function : callable
        ``function(shared, *inputs)`` returns a block. `shared` is a dict of the run
        that all blocks of a worker share.
    inputs : tuple
        Arguments. The function gets the results of futures.
    """

    function: Any
    inputs: tuple = ()


@dataclass
class Link:
    """Reference of the client to a host.

    Parameters
    ----------
    name : str
        Name of the host.
    job : distributed.Future
        Future of the actor, which keeps the actor alive.
    direct : bool
        Whether the client can send messages to the worker, without the scheduler.
    """

    name: str
    job: Any
    direct: bool


class DaskExecutor(Executor):
    """Executor whose blocks are on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    """

    loses_blocks = True

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self._run = uuid.uuid4().hex
        self._ticket = 0
        # links to the hosts, by the address of their worker
        self._hosts = {}
        self._n_snapshots, self._whole = 0, True

    # ---- placement of blocks ----

    def place(self, builders: Sequence[Callable[[], Any]]) -> None:
        if not all(isinstance(each, Builder) for each in builders):
            raise TypeError(
                "DaskExecutor needs data in parts on the workers: use an estimator of "
                "sksstruct.dask"
            )
        self.builders = builders
        self.n_blocks = len(builders)
        # for each block the address of its worker, and the number of the thread
        self._slots = [None] * self.n_blocks
        self._tickets = [None] * self.n_blocks
        self.rebuild(range(self.n_blocks))

    def rebuild(self, blocks: Sequence[int]) -> None:
        while blocks:
            self._assign(blocks)
            blocks = self._make(blocks)

    def _threads(self):
        """Number of threads by address of the worker; waits until there is a worker."""
        while True:
            self._check_open()
            self.client.wait_for_workers(1, timeout=PATIENCE)
            # the worker may have disappeared since the wait
            if n_threads := self.client.nthreads():
                return dict(sorted(n_threads.items()))

    def _assign(self, blocks):
        """Choose a thread for each of the given blocks.

        A block is placed on a worker that has its data, or on any worker if none has.
        Threads are filled in order, up to the average number of blocks: neighbors in
        one thread are summed there.
        """
        threads = self._threads()
        load = defaultdict(int)
        moving = set(blocks)
        for number, slot in enumerate(self._slots):
            if slot is not None and number not in moving:
                load[slot] += 1
        slots = [(name, k) for name, count in threads.items() for k in range(count)]
        holders = self._holders(blocks)
        most = -(-self.n_blocks // len(slots))
        for number in sorted(blocks):
            near = [slot for slot in slots if slot[0] in holders[number]] or slots
            # take the first free slot, so that neighboring blocks are in one thread
            free = [slot for slot in near if load[slot] < most]
            slot = free[0] if free else min(near, key=load.__getitem__)
            self._slots[number] = slot
            load[slot] += 1

    def _holders(self, blocks):
        """Workers that have the data of each block."""
        futures = {
            number: [each for each in self.builders[number].inputs if _is_task(each)]
            for number in blocks
        }
        every = [future for inputs in futures.values() for future in inputs]
        places = self.client.who_has(every) if every else {}
        return {
            number: {name for each in inputs for name in places.get(each.key, ())}
            for number, inputs in futures.items()
        }

    def _submit(self, name, address, function, *arguments, **options):
        """Submit a task, named for the dashboard, preferably to one worker."""
        self._ticket += 1
        # large weights in a task are intended: switch off the warning of Dask
        with dask.config.set(
            {"distributed.admin.large-graph-warning-threshold": "1TB"}
        ):
            return self.client.submit(
                function,
                *arguments,
                key=f"sksstruct-{name}-{self._ticket}-{self._run}",
                workers=None if address is None else [address],
                # if the worker is lost, another worker answers that blocks are lost
                allow_other_workers=address is not None,
                pure=False,
                **options,
            )

    def _find_hosts(self, blocks):
        """Make hosts on those workers of the given blocks that have no host yet."""
        missing = {self._slots[number][0] for number in blocks} - self._hosts.keys()
        starting = {}
        for address in sorted(missing):
            name = f"{self._run}-{self._ticket}"
            job = self._submit("host", address, Host, name, actor=True)
            starting[address] = name, job, self._start(self._reach(address))
        for address, (name, job, reached) in starting.items():
            if self._result(job, address) is not None:
                self._hosts[address] = Link(name, job, reached.result())

    def _make(self, blocks):
        """Make blocks in their saved states; return the blocks that were lost again.

        A task that runs on another worker than intended finds no host there, and makes
        no block.
        """
        jobs = {}
        self._find_hosts(blocks)
        for number in blocks:
            builder, address = self.builders[number], self._slots[number][0]
            self._tickets[number] = self._ticket + 1
            link = self._hosts.get(address)
            jobs[number] = link and self._submit(
                "build", address, make_block, link.name, number, self._ticket + 1,
                builder.function, self._kept.get(number), *builder.inputs,
            )  # fmt: skip
        lost = []
        for number, job in jobs.items():
            address = self._slots[number][0]
            if job is None or not self._result(job, address):
                lost.append(number)
                # a restarted worker with the same address has no host
                self._hosts.pop(address, None)
        return lost

    # ---- calls ----

    def snapshot(self, v: np.ndarray, changed: Any) -> Any:
        self._n_snapshots += 1
        # the first snapshot after states were saved is whole: if blocks are rebuilt,
        # calls are repeated from this snapshot on
        whole, self._whole = self._whole, False
        if whole or changed is None:
            return Snapshot(self._n_snapshots, v.copy())
        return Snapshot(self._n_snapshots, changed.take(v), changed)

    def call(
        self,
        method: str,
        *common: Any,
        blocks: Sequence[int] | None = None,
        each: dict[int, tuple] | None = None,
        total: Any = None,
    ) -> dict[int, Any]:
        self._whole |= method in _STATES
        self._check_open()
        numbers = list(range(self.n_blocks) if blocks is None else blocks)
        calls = self._calls(method, numbers, each, total)
        links = {address: self._hosts.get(address) for address in calls}
        size = sum(map(_size, common))
        self.sent += size * len(calls)
        # send long vectors directly to few workers, and short arguments directly in
        # rounds, which have `total`
        direct = len(calls) <= _FEW if size >= _SMALL else total is not None
        sent = common
        if not all(link is None or (direct and link.direct) for link in links.values()):
            sent = self._send(common, size)
        jobs = {}
        for address, call in calls.items():
            link = links[address]
            if link is None:
                continue
            if direct and link.direct:
                jobs[address] = self._start(self._ask(link, address, call, common))
            else:
                jobs[address] = self._submit(
                    method, address, call_host, link.name, call, sent
                )
        answers = [self._result(job, address) for address, job in jobs.items()]
        # release large weights at once: after a time-out, reference cycles of frames
        # would keep them
        for job in filter(_is_task, [*jobs.values(), sent]):
            job.release()
        values = {}
        for answer in filter(None, answers):
            if answer.error is not None:
                _, error, trace = clean_exception(*answer.error)
                raise error.with_traceback(trace)
            values.update(answer.values)
            for node, change in answer.nodes.items():
                self.received += change.nbytes
                total.add(_writable(change), node=node)
        return {number: values[number] for number in numbers if number in values}

    def _calls(self, method, numbers, each, total):
        """The `Call` for each worker; the blocks get the ticket of this call."""
        groups = defaultdict(lambda: defaultdict(dict))
        self._ticket += 1
        for number in numbers:
            address, thread = self._slots[number]
            groups[address][thread][number] = self._tickets[number]
            self._tickets[number] = self._ticket
        adds = None if total is None else self.n_blocks
        calls = {}
        for address, threads in groups.items():
            arguments = None
            if each is not None:
                arguments = {b: each[b] for group in threads.values() for b in group}
            threads = list(threads.values())
            calls[address] = Call(method, self._ticket, threads, arguments, adds)
        return calls

    # ---- messages ----

    def _check_open(self):
        if self.client.status == "closed":
            raise RuntimeError("Client is closed")

    def _start(self, coroutine):
        """Run a coroutine in the event loop of the client; return its future."""
        return asyncio.run_coroutine_threadsafe(
            coroutine, self.client.loop.asyncio_loop
        )

    async def _reach(self, address):
        """Whether the client can connect to a worker."""
        try:
            await asyncio.wait_for(self.client.rpc(address).identity(), _REACH)
        except OSError:  # includes TimeoutError
            return False
        return True

    async def _ask(self, link, address, call, common):
        """Send a call to a host; return None if the worker or the host does not exist.

        Methods of `distributed.Actor` send the same message, but their futures wait
        forever if a worker was restarted without its actor.
        """
        text, *arrays = pack((call, common))
        try:
            answer = await self.client.rpc(address).actor_execute(
                actor=link.job.key,
                function="call",
                args=[text, *map(to_serialize, arrays)],
                kwargs={},
            )
        except (OSError, KeyError):
            # if the scheduler still has the worker, later calls are tasks
            link.direct = False
            return None
        if answer["status"] != "OK":
            raise answer["exception"]
        return unpack(answer["result"])

    def _result(self, job, address):
        """The result of a task or message, or None if the worker was lost."""
        while True:
            try:
                if not _is_task(job):
                    return job.result(timeout=_LOOK)
                wait(job, timeout=_LOOK)
                # the task is done: the transfer of a large result may take long
                return job.result(timeout=PATIENCE)
            except (CancelledError, KilledWorker):
                return None
            except TimeoutError:
                if _is_task(job) and job.status == "error":
                    # the task itself raised TimeoutError
                    raise
            # if all workers are lost, Dask keeps waiting for the lost worker
            if address not in self.client.nthreads():
                job.cancel()
                return None

    def _send(self, common, size):
        """Arguments of tasks; long ones as a future, which is sent once to each worker.

        The future is that of a task, whose result workers fetch from each other. Dask
        repeats the task if its worker is lost; scattered data would be lost.
        """
        return self._submit("send", None, hold, common) if size >= _SMALL else common

    def close(self) -> None:
        super().close()
        self._hosts = {}


def _is_task(value):
    return hasattr(value, "key") and hasattr(value, "result")


def _size(value):
    """Size of a vector in bytes; 0 for other arguments."""
    return value.nbytes if isinstance(value, np.ndarray | Snapshot) else 0


def _writable(change):
    """A change as a writable array: arrays from messages may be read-only."""
    if isinstance(change, np.ndarray) and not change.flags.writeable:
        return change.copy()
    return change
