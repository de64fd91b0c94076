"""Choose the instruction set of the row kernels, once, at import.

The environment variable ``SKSSTRUCT_SIMD`` selects another set than the best one:
``baseline``, ``avx2`` or ``avx512``.
"""

import os

cdef extern from "sksstruct/utils/_simd_levels.h" nogil:
    const int SKS_N_LEVELS
    int sks_highest_level() noexcept
    const sks_kernels* sks_level(int level) noexcept

NAMES = ("baseline", "avx2", "avx512")[:SKS_N_LEVELS]

cdef int chosen = 0


def available():
    """Return the names of the instruction sets that run here, slowest first."""
    return NAMES[: sks_highest_level() + 1]


def current():
    """Return the name of the instruction set that the kernels use."""
    return NAMES[chosen]


def choose(name=None):
    """Make all kernels use an instruction set, by default the best one.

    This is for the import of this module and for tests. No kernel may be running.
    """
    global chosen, sks_table
    names = available()
    name = name or names[len(names) - 1]
    if name not in names:
        raise ValueError(
            f"SKSSTRUCT_SIMD={name!r} is not an instruction set that this machine and "
            f"this build have: {', '.join(names)}."
        )
    chosen = names.index(name)
    sks_table = sks_level(chosen)[0]


choose(os.environ.get("SKSSTRUCT_SIMD"))
