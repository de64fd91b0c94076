"""How much memory the machine, the container and the user's limit leave."""

import math
import os
from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_PROC, _GROUP = Path("/proc"), Path("/sys/fs/cgroup")


def free_bytes():
    """Bytes that this process can still take; inf where the system does not tell.

    Linux says what is available, in the machine and in a container. Elsewhere it is all
    memory that there is.
    """
    limits = [_available(), _in_group(), _of_user()]
    return min(limit for limit in limits if limit is not None)


def _available():
    try:
        for line in (_PROC / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return math.inf


def _in_group():
    """What the memory limit of a container leaves, whose caches can be given up."""
    try:
        most = (_GROUP / "memory.max").read_text().strip()
        if most == "max":
            return None
        used = int((_GROUP / "memory.current").read_text())
        rows = (_GROUP / "memory.stat").read_text().splitlines()
        numbers = dict(row.split() for row in rows)
        return max(int(most) - used + int(numbers.get("inactive_file", 0)), 0)
    except (OSError, ValueError):
        return None


def _of_user():
    """What a limit of the address space leaves, as of ``ulimit -v``."""
    if resource is None:
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    if most == resource.RLIM_INFINITY:
        return None
    try:
        pages = int((_PROC / "self" / "statm").read_text().split()[0])
    except OSError:
        return most
    return max(most - pages * os.sysconf("SC_PAGE_SIZE"), 0)
