"""What is on the workers: the blocks of a run, and how they answer calls."""

import asyncio
import pickle
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np
from distributed.core import error_message

from sksstruct.solvers.partitioned.changes import Places, TreeSum
from sksstruct.utils.parallel import one_blas_thread

# Arrays of so many bytes are parts of messages of their own.
_LONG = 2**16
# Threads of a worker that may be at work on blocks.
_THREADS = 1024

# On a worker: its hosts, by their names.
_HOSTS: WeakValueDictionary = WeakValueDictionary()


@dataclass
class Snapshot:
    """Weights for the blocks, as what has changed since the last snapshot.

    Parameters
    ----------
    number : int
        Number of the snapshot; that of a worker must be this one, or the one before.
    values : ndarray
        All weights, or those that may have changed.
    places : Places, default=None
        Where these are; None: all weights are there.
    """

    number: int
    values: np.ndarray
    places: Places | None = None

    @property
    def nbytes(self):
        """Memory of the arrays."""
        return self.values.nbytes + (0 if self.places is None else self.places.nbytes)


@dataclass
class Call:
    """What a worker is asked for, besides the arguments that all workers get.

    Parameters
    ----------
    method : str
        Name of the method of the blocks.
    ticket : int
        Number of the call.
    groups : list of dict of int to int
        For each thread, its blocks and the tickets of the calls that changed them last.
    each : dict of int to tuple, default=None
        Arguments of each block.
    adds : int, default=None
        The number of all blocks, if changes are to be added.
    """

    method: str
    ticket: int
    groups: list
    each: dict | None = None
    adds: int | None = None


@dataclass
class Answer:
    """What comes back from a worker.

    Parameters
    ----------
    values : dict of int to object
        What the method returned, by block. Those that were lost are missing.
    nodes : dict of (int, int) to change
        Sums of changes, as in `TreeSum`.
    error : tuple of bytes, default=None
        The error that a block raised, and its traceback.
    """

    values: dict = field(default_factory=dict)
    nodes: dict = field(default_factory=dict)
    error: tuple | None = None


def pack(value):
    """A value as parts of a message: a pickle, and long arrays as they are."""
    arrays = []

    def is_short(array):
        if array.raw().nbytes < _LONG:
            return True
        arrays.append(array.raw())
        return False

    # Dask packs objects one by one, which takes longer than all else for short ones
    return [pickle.dumps(value, protocol=5, buffer_callback=is_short), *arrays]


def unpack(message):
    """The value that was packed."""
    return pickle.loads(message[0], buffers=message[1:])


class Host:
    """Has the blocks of a run that are on this worker.

    Attributes
    ----------
    blocks : dict of int to tuple
        The ticket of the last call, and the block, by its number.
    shared : dict
        What all blocks of the worker use.
    """

    def __init__(self, name):
        self.blocks, self.shared = {}, {}
        self._lock, self._weights, self._number = Lock(), None, -1
        # a thread for each thread of the worker but one, and that one
        self._others, self._first = ThreadPoolExecutor(_THREADS), ThreadPoolExecutor(1)
        _HOSTS[name] = self

    async def call(self, *message):
        """Answer a call that came without a task."""
        # the event loop has to go on: the scheduler asks whether the worker lives
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._first, self._reply, message)

    def _reply(self, message):
        return pack(self.answer(*unpack(message)))

    def answer(self, call, common):
        """Call a method of some blocks; those not in the state asked for are lost.

        Parameters
        ----------
        call : Call
            What is asked for.
        common : tuple
            Arguments of all blocks.

        Returns
        -------
        answer : Answer
        """
        try:
            # nobody waits any more for one that is still at work: weights are shared
            with self._lock, one_blas_thread():
                return self._answer(call, common)
        except BaseException as error:
            message = error_message(error)
            # as bytes: an error that cannot be sent would look like a lost worker
            parts = message["exception"], message["traceback"]
            return Answer(error=tuple(each and each.data for each in parts))

    def _answer(self, call, common):
        if common and isinstance(common[0], Snapshot):
            common = (self._read(common[0]), *common[1:])
            if common[0] is None:
                return Answer()
        first, *others = call.groups
        jobs = [self._others.submit(self._work, call, each, common) for each in others]
        try:
            values, total = self._work(call, first, common)
        finally:
            wait(jobs)
        for job in jobs:
            some, sums = job.result()
            values.update(some)
            for node, change in sums.nodes.items():
                total.add(change, node=node)
        return Answer(values, total.nodes)

    def _work(self, call, group, common):
        """What one thread does: values of its blocks, and the sum of their changes."""
        values, total = {}, TreeSum(call.adds or 1)
        for number, expected in group.items():
            # taken out while it changes: an error leaves no block in an unknown state
            held, block = self.blocks.pop(number, (None, None))
            if held != expected:
                continue
            own = () if call.each is None else call.each[number]
            value = getattr(block, call.method)(*common, *own)
            if call.adds is not None:
                value, change = value
                total.add(change, number)
            values[number] = value
            self.blocks[number] = call.ticket, block
        return values, total

    def _read(self, snapshot):
        """The weights of a snapshot; None where the one before it was missed."""
        if self._number == snapshot.number:
            return self._weights
        if snapshot.places is None:
            self._weights = np.array(snapshot.values)
        elif self._number == snapshot.number - 1:
            snapshot.places.put(self._weights, snapshot.values)
        else:
            return None
        self._number = snapshot.number
        return self._weights


def make_block(name, number, ticket, function, state, *inputs):
    """Make a block; return whether its host is here."""
    host = _HOSTS.get(name)
    if host is None:
        return False
    block = function(host.shared, *inputs)
    if state is not None:
        block.restore(state)
    host.blocks[number] = ticket, block
    return True


def call_host(name, call, common):
    """Answer a call that came as a task; None if there is no host."""
    host = _HOSTS.get(name)
    return host and host.answer(call, common)


def hold(value):
    """Arguments of later tasks."""
    return value
