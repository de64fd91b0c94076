"""Blocks on the workers of a Dask cluster, and what happens if workers are lost.

A block is made on a worker and stays there, with a host: an actor of Dask, which lives
as long as the client asks for it. Blocks are gone with the client, however that ends. A
call names the blocks it is for and the ticket of the call that changed each last. Where
a block is not in that state, because its worker was lost, or because the scheduler has
run a task a second time, the answer is that it is lost, and the driver makes it again
elsewhere.

Calls are tasks, but for those of rounds: there are many, each may be short, and a task
costs the client and the worker about 10 ms. These go to the hosts themselves, one
message for each worker, if the client reaches it.

Nothing of the result depends on where blocks are, or how many workers there are:
changes are added in the order of a `TreeSum`, of which a worker adds what it can.
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

# Seconds to wait for a worker where there is none.
PATIENCE = 300
# Seconds between two times that a worker is looked for whose task takes long.
_LOOK = 1
# Seconds to wait for the first answer of a worker that may be out of reach.
_REACH = 5
# Shorter vectors than this go with the calls, and not ahead of them.
_SMALL = 2**16
# To so many workers the client sends long vectors itself; more fetch them from each
# other.
_FEW = 16

# Methods that keep or change states, from which later calls are repeated.
_STATES = "state", "save", "load"


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
class Link:
    """How a host is reached.

    Parameters
    ----------
    name : str
        Its name.
    job : distributed.Future
        The actor, which is there as long as this is.
    direct : bool
        Whether the client reaches its worker, and not only the scheduler.
    """

    name: str
    job: Any
    direct: bool


class DaskExecutor(Executor):
    """Blocks on the workers of a cluster.

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

    # ---- where blocks are ----

    def place(self, builders: Sequence[Callable[[], Any]]) -> None:
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
        self.rebuild(range(self.n_blocks))

    def rebuild(self, blocks: Sequence[int]) -> None:
        while blocks:
            self._assign(blocks)
            blocks = self._make(blocks)

    def _threads(self):
        """Threads of each worker, by its address; waits until there is one."""
        while True:
            self._check_open()
            self.client.wait_for_workers(1, timeout=PATIENCE)
            # the only one may be gone again
            if found := self.client.nthreads():
                return dict(sorted(found.items()))

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
            number: [each for each in self.builders[number].inputs if _is_task(each)]
            for number in blocks
        }
        every = [future for some in futures.values() for future in some]
        places = self.client.who_has(every) if every else {}
        return {
            number: {name for each in some for name in places.get(each.key, ())}
            for number, some in futures.items()
        }

    def _submit(self, name, address, function, *arguments, **options):
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
                workers=None if address is None else [address],
                # elsewhere, where nobody has the blocks, they are lost
                allow_other_workers=address is not None,
                pure=False,
                **options,
            )

    def _find_hosts(self, blocks):
        """Make hosts on the workers of some blocks, where there are none yet."""
        missing = {self._slots[number][0] for number in blocks} - self._hosts.keys()
        made = {}
        for address in sorted(missing):
            name = f"{self._run}-{self._ticket}"
            job = self._submit("host", address, Host, name, actor=True)
            made[address] = name, job, self._start(self._reach(address))
        for address, (name, job, reached) in made.items():
            if self._result(job, address) is not None:
                self._hosts[address] = Link(name, job, reached.result())

    def _make(self, blocks):
        """Make blocks in the states that were kept; return those that were lost again.

        Tasks that end up on another worker than theirs make no block.
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
                # a worker that is back under its old address has no host any more
                self._hosts.pop(address, None)
        return lost

    # ---- calls ----

    def snapshot(self, v: np.ndarray, changed: Any) -> Any:
        self._n_snapshots += 1
        # who repeats calls since states were kept begins with the first of them
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
        # only rounds add changes
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
        # now: weights are large, and a time-out leaves cycles that keep its frames
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
        """What is asked of each worker; the blocks get tickets of this call."""
        groups = defaultdict(lambda: defaultdict(dict))
        self._ticket += 1
        for number in numbers:
            address, thread = self._slots[number]
            groups[address][thread][number] = self._tickets[number]
            self._tickets[number] = self._ticket
        adds = None if total is None else self.n_blocks
        calls = {}
        for address, threads in groups.items():
            own = None
            if each is not None:
                own = {b: each[b] for group in threads.values() for b in group}
            threads = list(threads.values())
            calls[address] = Call(method, self._ticket, threads, own, adds)
        return calls

    # ---- messages ----

    def _check_open(self):
        if self.client.status == "closed":
            raise RuntimeError("Client is closed")

    def _start(self, coroutine):
        """Let a coroutine run in the thread of the client."""
        return asyncio.run_coroutine_threadsafe(
            coroutine, self.client.loop.asyncio_loop
        )

    async def _reach(self, address):
        """Whether the client has a way to a worker."""
        try:
            await asyncio.wait_for(self.client.rpc(address).identity(), _REACH)
        except OSError:  # or a time-out, which is one
            return False
        return True

    async def _ask(self, link, address, call, common):
        """Send a call to a host; None where the worker, or the host, is not there.

        This is what methods of `distributed.Actor` do. Their futures wait for ever
        where a worker is back, but its actor is not.
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
            # if the scheduler still has it, it is asked by tasks from now on
            link.direct = False
            return None
        if answer["status"] != "OK":
            raise answer["exception"]
        return unpack(answer["result"])

    def _result(self, job, address):
        """The result of a task or message; None where it was lost with its worker."""
        while True:
            try:
                if not _is_task(job):
                    return job.result(timeout=_LOOK)
                wait(job, timeout=_LOOK)
                # done: a message that takes long is no sign of a lost worker
                return job.result(timeout=PATIENCE)
            except (CancelledError, KilledWorker):
                return None
            except TimeoutError:
                if _is_task(job) and job.status == "error":
                    # of the task itself
                    raise
            # without any worker, Dask waits for the one that is gone, and no other
            if address not in self.client.nthreads():
                job.cancel()
                return None

    def _send(self, common, size):
        """Arguments for tasks: long ones go to each worker once.

        They are the result of a task, which the workers fetch from each other, and
        which is repeated where its worker is lost. Data that are scattered would be
        gone.
        """
        return self._submit("send", None, hold, common) if size >= _SMALL else common

    def close(self) -> None:
        super().close()
        self._hosts = {}


def _is_task(value):
    return hasattr(value, "key") and hasattr(value, "result")


def _size(value):
    """Bytes of a vector."""
    return value.nbytes if isinstance(value, np.ndarray | Snapshot) else 0


def _writable(change):
    """A change that may be added to: arrays may come as read-only messages."""
    if isinstance(change, np.ndarray) and not change.flags.writeable:
        return change.copy()
    return change
