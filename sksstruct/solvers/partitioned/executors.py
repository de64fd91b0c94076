"""Executors, which place blocks and call their methods: serially, or on threads.

The driver (`Rounds`) calls blocks only through an executor. A call names a method,
arguments common to all blocks, and arguments of each block. The call returns a small
object for each block. Changes of weights are not returned: a `TreeSum` adds changes in
an order that depends only on the number of blocks.

An executor that may lose blocks (`loses_blocks`) omits lost blocks from the result. The
driver then calls `rebuild`, and repeats the rounds since the states were saved.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from threading import Lock
from typing import Any

import numpy as np
from joblib import effective_n_jobs


class Executor:
    """Base of all executors: subclasses implement `place`, `call` and `rebuild`.

    Attributes
    ----------
    n_blocks : int
        Number of blocks.
    loses_blocks : bool
        Whether blocks may be lost. If not, no states are saved.
    sent, received : int
        Size in bytes of weights sent to blocks, and of changes received from them.
    """

    loses_blocks = False

    def __init__(self) -> None:
        self.sent = self.received = 0
        self._kept = {}

    def place(self, builders: Sequence[Callable[[], Any]]) -> None:
        """Make the blocks, by calls of their builders.

        Parameters
        ----------
        builders : list of callable
            Functions without arguments, which make one block each. Must be
            picklable if blocks are in other processes.
        """
        raise NotImplementedError

    def call(
        self,
        method: str,
        *common: Any,
        blocks: Sequence[int] | None = None,
        each: dict[int, tuple] | None = None,
        total: Any = None,
    ) -> dict[int, Any]:
        """Call a method of blocks.

        Parameters
        ----------
        method : str
            Name of the method.
        *common : objects
            Arguments common to all blocks.
        blocks : sequence of int, default=None
            Numbers of the blocks; None for all.
        each : dict of int to tuple, default=None
            Further arguments of each block, after the common ones.
        total : TreeSum, default=None
            If given, the method returns a value and a change, and the change is
            added here.

        Returns
        -------
        values : dict of int to object
            Values by block, in the order of the blocks. Lost blocks are missing,
            and have added nothing to `total`.
        """
        raise NotImplementedError

    def snapshot(self, v: np.ndarray, changed: Any) -> Any:
        """Return the weights as an argument of calls that may be repeated later.

        Parameters
        ----------
        v : ndarray of shape (n_weights,)
            The weights.
        changed : Places or None
            Places where v differs from the last snapshot; None: anywhere.

        Returns
        -------
        snapshot : object
            Argument that blocks receive as an array; v itself if no call is ever
            repeated.
        """
        return v.copy() if self.loses_blocks else v

    def keep(self) -> list[int]:
        """Save the states of all blocks for `rebuild`.

        Returns
        -------
        lost : list of int
            Lost blocks. If there are any, the states saved before stay.
        """
        states = self.call("state")
        lost = [b for b in range(self.n_blocks) if b not in states]
        if not lost:
            self._kept = states
        return lost

    def rebuild(self, blocks: Sequence[int]) -> None:
        """Make lost blocks again, in the states saved last, if there are any.

        Parameters
        ----------
        blocks : sequence of int
            Numbers of the lost blocks.
        """
        raise NotImplementedError

    def side_by_side(self, jobs: Sequence[Callable[[], Any]]) -> list:
        """Call functions without arguments in this process.

        Parameters
        ----------
        jobs : list of callable
            The functions.

        Returns
        -------
        values : list
            The results, in the order of the jobs.
        """
        return [job() for job in jobs]

    def close(self) -> None:
        """Release the blocks."""
        self._kept = {}


class Serial(Executor):
    """Blocks in this process, called one after the other."""

    def place(self, builders):
        self.builders = builders
        self.n_blocks = len(builders)
        self.blocks = [build() for build in builders]

    def call(self, method, *common, blocks=None, each=None, total=None):
        values = {}
        for number in range(self.n_blocks) if blocks is None else blocks:
            value = self._call_block(number, method, common, each)
            if total is not None:
                value, change = value
                total.add(change, number)
            values[number] = value
        return values

    def _call_block(self, number, method, common, each):
        own_args = () if each is None else each[number]
        return getattr(self.blocks[number], method)(*common, *own_args)

    def rebuild(self, blocks):
        for number in blocks:
            self.blocks[number] = self.builders[number]()
            if number in self._kept:
                self.blocks[number].restore(self._kept[number])

    def close(self):
        super().close()
        self.blocks = []


class Threads(Serial):
    """Blocks in this process, called by threads; kernels release the interpreter lock.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads, as in joblib.
    """

    def __init__(self, n_jobs=None):
        super().__init__()
        self.n_threads = effective_n_jobs(n_jobs)
        self._pool = None

    def place(self, builders):
        super().place(builders)
        # after an interrupt, a job may still run that no caller waits for
        self._locks = [Lock() for _ in builders]

    def _call_block(self, number, method, common, each):
        with self._locks[number]:
            return super()._call_block(number, method, common, each)

    def call(self, method, *common, blocks=None, each=None, total=None):
        if self.n_threads == 1:
            return super().call(method, *common, blocks=blocks, each=each, total=total)
        pool = self._threads()
        numbers = range(self.n_blocks) if blocks is None else blocks
        waiting = iter(numbers)
        running, values = {}, {}
        try:
            while True:
                # no more jobs than threads are submitted, as an interrupt has to wait
                # for all submitted jobs
                while len(running) < self.n_threads:
                    number = next(waiting, None)
                    if number is None:
                        break
                    job = pool.submit(self._call_block, number, method, common, each)
                    running[job] = number
                if not running:
                    break
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for job in done:
                    number, value = running.pop(job), job.result()
                    if total is not None:
                        value, change = value
                        total.add(change, number)
                    values[number] = value
        finally:
            wait(running)
        return {number: values[number] for number in numbers}

    def _threads(self):
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.n_threads)
        return self._pool

    def side_by_side(self, jobs):
        if self.n_threads == 1 or len(jobs) == 1:
            return super().side_by_side(jobs)
        running = []
        try:
            for job in jobs:
                running.append(self._threads().submit(job))
            return [job.result() for job in running]
        finally:
            wait(running)

    def close(self):
        super().close()
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
