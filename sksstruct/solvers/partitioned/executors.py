"""Where blocks are, and how their methods are called: one after the other, or threads.

The driver (`Rounds`) talks to blocks through an executor only. A call names a method,
arguments that are the same for all blocks, and arguments of each block. What comes back
are the values of the blocks, small objects. Changes of weights are not among them: they
are added in a `TreeSum`, in an order that depends on the number of blocks alone.

An executor that may lose blocks (`loses_blocks`) leaves them out of what it returns.
The driver then calls `rebuild`, and repeats the rounds since the states were kept.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from threading import Lock
from typing import Any

import numpy as np
from joblib import effective_n_jobs


class Executor:
    """Base of all executors: subclasses implement `place` and `_run`.

    Attributes
    ----------
    n_blocks : int
        Number of blocks.
    loses_blocks : bool
        Whether blocks may be lost. If not, no states are kept.
    sent, received : int
        Bytes of weights that went to blocks, and of changes that came from them.
    """

    loses_blocks = False

    def __init__(self) -> None:
        self.sent = self.received = 0
        self._kept = {}

    def place(self, builders: Sequence[Callable[[], Any]]) -> None:
        """Make the blocks.

        Parameters
        ----------
        builders : list of callable
            Makes block b without arguments. Must be picklable if blocks are in other
            processes.
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
            Arguments of all blocks.
        blocks : sequence of int, default=None
            Numbers of the blocks; None for all.
        each : dict of int to tuple, default=None
            Further arguments of each block, which follow the common ones.
        total : TreeSum, default=None
            If given, the method returns a value and a change, which is added here.

        Returns
        -------
        values : dict of int to object
            Values by block, in the order of the blocks. Those that were lost are
            missing: nothing of them has been added to `total`.
        """
        raise NotImplementedError

    def snapshot(self, v: np.ndarray, changed: Any) -> Any:
        """The weights as an argument of calls, which must stay as they are now.

        Parameters
        ----------
        v : ndarray of shape (n_weights,)
            The weights.
        changed : Places or None
            Where they differ from those of the last snapshot; None: anywhere.

        Returns
        -------
        snapshot : object
            What blocks get as an array. If calls are not repeated, it is v itself.
        """
        return v.copy() if self.loses_blocks else v

    def keep(self) -> list[int]:
        """Keep the states of all blocks as they are now, for `rebuild`.

        Returns
        -------
        lost : list of int
            Blocks that are lost. If there are any, the states kept before stay.
        """
        states = self.call("state")
        lost = [b for b in range(self.n_blocks) if b not in states]
        if not lost:
            self._kept = states
        return lost

    def rebuild(self, blocks: Sequence[int]) -> None:
        """Make lost blocks again, in the states that were kept last, if any were.

        Parameters
        ----------
        blocks : sequence of int
            Their numbers.
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
            What they return.
        """
        return [job() for job in jobs]

    def close(self) -> None:
        """Let go of the blocks."""
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
            value = self._one(number, method, common, each)
            if total is not None:
                value, change = value
                total.add(change, number)
            values[number] = value
        return values

    def _one(self, number, method, common, each):
        own = () if each is None else each[number]
        return getattr(self.blocks[number], method)(*common, *own)

    def rebuild(self, blocks):
        for number in blocks:
            self.blocks[number] = self.builders[number]()
            if number in self._kept:
                self.blocks[number].restore(self._kept[number])

    def close(self):
        super().close()
        self.blocks = []


class Threads(Serial):
    """Blocks in this process, called by threads, which the kernels let run together.

    Parameters
    ----------
    n_jobs : int or None
        Number of threads, as joblib has it.
    """

    def __init__(self, n_jobs=None):
        super().__init__()
        self.n_threads = effective_n_jobs(n_jobs)
        self._pool = None

    def place(self, builders):
        super().place(builders)
        # an interrupt may leave a job that nobody waits for
        self._locks = [Lock() for _ in builders]

    def _one(self, number, method, common, each):
        with self._locks[number]:
            return super()._one(number, method, common, each)

    def call(self, method, *common, blocks=None, each=None, total=None):
        if self.n_threads == 1:
            return super().call(method, *common, blocks=blocks, each=each, total=total)
        pool = self._threads()
        numbers = range(self.n_blocks) if blocks is None else blocks
        waiting = iter(numbers)
        running, values = {}, {}
        try:
            while True:
                # no more at once than there are threads: an interrupt waits for these
                while len(running) < self.n_threads:
                    number = next(waiting, None)
                    if number is None:
                        break
                    job = pool.submit(self._one, number, method, common, each)
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
