"""Cases that are decoded from bytes: hypothesis draws, and makes small, only these.

To draw an array number by number takes longer than most checks. Bytes are one draw;
smaller ones stand for simpler choices, so that a finding still becomes small.
"""

import numpy as np
from hypothesis import strategies as st


class Draws:
    """Reads choices from bytes; beyond their end, all choices are the first.

    Parameters
    ----------
    data : bytes
        What to read.
    """

    def __init__(self, data):
        self._data, self._at = data, 0

    def _take(self, n):
        part = self._data[self._at : self._at + n]
        self._at += n
        return part.ljust(n, b"\0")

    def integer(self, low, high):
        """A number from `low` to `high`."""
        n = high - low + 1
        return low + int.from_bytes(self._take(1 if n <= 256 else 4), "big") % n

    def flag(self):
        """False or True."""
        return bool(self.integer(0, 1))

    def choice(self, options):
        """One of some options."""
        return options[self.integer(0, len(options) - 1)]

    def array(self, shape, table):
        """An array of entries of a table."""
        n = int(np.prod(shape))
        codes = np.frombuffer(self._take(2 * n), dtype=">u2")
        return table[codes % len(table)].reshape(shape)


def decoded(n_bytes, decode):
    """Strategy of the cases ``decode(draws)``.

    Parameters
    ----------
    n_bytes : int
        Bytes to read from.
    decode : callable
        Makes a case of `Draws`.

    Returns
    -------
    strategy : hypothesis strategy
    """
    binary = st.binary(min_size=n_bytes, max_size=n_bytes)
    return binary.map(lambda data: decode(Draws(data)))


def table_of(special, low, high, share=0.5):
    """Special numbers and ordinary ones.

    Parameters
    ----------
    special : sequence of float
        Special numbers, the simplest first.
    low, high : float
        Bounds of the ordinary ones, which have few digits.
    share : float, default=0.5
        Share of the special ones.

    Returns
    -------
    table : ndarray of shape (4096,)
        What `Draws.array` picks from.
    """
    n = int(4096 * share)
    ordinary = np.random.default_rng(0).uniform(low, high, 4096 - n)
    ordinary = ordinary.astype(np.float16).astype(np.float64)
    return np.concatenate([np.resize(np.array(special), n), ordinary])
