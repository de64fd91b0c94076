"""Blocks on the workers that do something else in the middle of a fit."""

import threading
import time
from contextlib import contextmanager

from distributed import WorkerPlugin

from sksstruct.solvers.partitioned.blocks import Block

ADVANCE = Block.advance
RELEASED = threading.Event()


class Acting(WorkerPlugin):
    """Lets a block do something else first in its fourth round.

    A plugin, and no call: a worker that comes back is no other than those before.

    Parameters
    ----------
    act : callable
        What to do.
    number : int
        Number of the block.
    """

    name = "acting"

    def __init__(self, act, number):
        self.act, self.number = act, number

    def setup(self, worker):
        act, number = self.act, self.number

        def advance(self, v, sigma, turn, changed=None):
            if turn.round == 4 and self.number == number:
                act()
            return ADVANCE(self, v, sigma, turn, changed)

        Block.advance = advance

    def teardown(self, worker):
        Block.advance = ADVANCE
        RELEASED.clear()


def nothing():
    """What a block does first if it does nothing else."""


def wait_for_word(marker):
    """Say that the block is at work, and wait."""
    marker.touch()
    assert RELEASED.wait(20)


def release():
    """Let a block that waits go on."""
    RELEASED.set()


@contextmanager
def once_at_work(marker, *steps):
    """Call functions, half a second apart, once a block has said it is at work."""

    def wait():
        for _ in range(6000):
            if marker.exists():
                break
            time.sleep(0.01)
        else:
            return
        for step in steps:
            time.sleep(0.5)
            step()

    thread = threading.Thread(target=wait)
    thread.start()
    yield
    thread.join()
    assert marker.exists(), "no block has come to its fourth round"
