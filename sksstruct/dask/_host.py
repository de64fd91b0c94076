"""The part of the executor on the workers: hosts hold blocks and answer calls."""

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

# Arrays of at least this many bytes are separate parts of a message.
_LONG = 2**16
# Largest number of threads of a worker.
_THREADS = 1024

# Hosts of this worker, by name.
_HOSTS: WeakValueDictionary = WeakValueDictionary()


@dataclass
class Snapshot:
    """Weights for the blocks: all, or those changed since the previous snapshot.

    Parameters
    ----------
    number : int
        Number of the snapshot. Changes apply to a worker with the previous snapshot.
    values : ndarray
        All weights, or the weights that may have changed.
    places : Places, default=None
        Places of the changed weights; None if `values` has all weights.
    """

    number: int
    values: np.ndarray
    places: Places | None = None

    @property
    def nbytes(self):
        """Size in bytes of the arrays of weights and places."""
        return self.values.nbytes + (0 if self.places is None else self.places.nbytes)


@dataclass
class Call:
    """A call of blocks on a worker, without the arguments that all blocks share.

    Parameters
    ----------
    method : str
        Name of the method of the blocks.
    ticket : int
        Number of the call.
    groups : list of dict of int to int
        For each thread its blocks, and for each block the ticket of the last call that
        changed it.
    each : dict of int to tuple, default=None
        Further arguments by block.
    adds : int, default=None
        Number of blocks on all workers, if the method returns changes to be summed.
    """

    method: str
    ticket: int
    groups: list
    each: dict | None = None
    adds: int | None = None


@dataclass
class Answer:
    """The answer of a worker to a call.

    Parameters
    ----------
    values : dict of int to object
        Return value of the method by block, without the blocks that were lost.
    nodes : dict of (int, int) to change
        Sums of changes, as in `TreeSum`.
    error : tuple of bytes, default=None
        The error that a block raised, and its traceback.
    """

    values: dict = field(default_factory=dict)
    nodes: dict = field(default_factory=dict)
    error: tuple | None = None


def pack(value):
    """Convert a value to parts of a message: a pickle, and the long arrays in it."""
    arrays = []

    def is_short(array):
        if array.raw().nbytes < _LONG:
            return True
        arrays.append(array.raw())
        return False

    # pickle once: Dask would serialize each object, which takes most of the time of a
    # short message
    return [pickle.dumps(value, protocol=5, buffer_callback=is_short), *arrays]


def unpack(message):
    """Convert the parts of a message back to the value that was packed."""
    return pickle.loads(message[0], buffers=message[1:])


class Host:
    """Holder of the blocks of a run on this worker.

    Attributes
    ----------
    blocks : dict of int to tuple
        For each number of a block the ticket of the last call of the block, and the
        block.
    shared : dict
        Objects that all blocks of the worker share.
    """

    def __init__(self, name):
        self.blocks, self.shared = {}, {}
        self._lock, self._weights, self._number = Lock(), None, -1
        # `_first` answers calls and works on the first group of blocks, `_others` on
        # further groups
        self._others, self._first = ThreadPoolExecutor(_THREADS), ThreadPoolExecutor(1)
        _HOSTS[name] = self

    async def call(self, *message):
        """Answer a call that the client sent directly, not as a task."""
        # answer in a thread: a blocked event loop would look like a dead worker
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._first, self._reply, message)

    def _reply(self, message):
        return pack(self.answer(*unpack(message)))

    def answer(self, call, common):
        """Call a method of blocks; a block with another ticket counts as lost.

        Parameters
        ----------
        call : Call
            The method, and the blocks with their tickets.
        common : tuple
            Arguments of all blocks.

        Returns
        -------
        answer : Answer
            Return values, sums of changes, or the error.
        """
        try:
            # take a lock, as a call for which the client no longer waits may still read
            # the weights
            with self._lock, one_blas_thread():
                return self._answer(call, common)
        except BaseException as error:
            message = error_message(error)
            # return the error as bytes: an error that cannot be unpickled would look
            # like a lost worker
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
            group_values, sums = job.result()
            values.update(group_values)
            for node, change in sums.nodes.items():
                total.add(change, node=node)
        return Answer(values, total.nodes)

    def _work(self, call, group, common):
        """Call the blocks of one thread; return the results, and the sum of changes."""
        values, total = {}, TreeSum(call.adds or 1)
        for number, expected in group.items():
            # remove the block while it changes: after an error it counts as lost
            ticket, block = self.blocks.pop(number, (None, None))
            if ticket != expected:
                continue
            arguments = () if call.each is None else call.each[number]
            value = getattr(block, call.method)(*common, *arguments)
            if call.adds is not None:
                value, change = value
                total.add(change, number)
            values[number] = value
            self.blocks[number] = call.ticket, block
        return values, total

    def _read(self, snapshot):
        """The weights of a snapshot, or None if the host missed the previous one."""
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
    """Make a block; return False if this worker does not have its host."""
    host = _HOSTS.get(name)
    if host is None:
        return False
    block = function(host.shared, *inputs)
    if state is not None:
        block.restore(state)
    host.blocks[number] = ticket, block
    return True


def call_host(name, call, common):
    """Answer a call that was sent as a task, or return None if the host is lost."""
    host = _HOSTS.get(name)
    return host and host.answer(call, common)


def hold(value):
    """Return the value: a task whose result later tasks have as argument."""
    return value
