"""Free memory, as limited by the machine, the container and the user."""

import math
import os
from pathlib import Path

try:
    import resource
except ImportError:  # Windows has no module `resource`
    resource = None  # type: ignore[assignment]

_PROC, _GROUP = Path("/proc"), Path("/sys/fs/cgroup")


def free_bytes():
    """Return how many more bytes this process can use; inf if the limit is not known.

    Linux reports available memory, for the machine and for a container. Other systems
    report the total memory.
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
    """Return the free memory of a container, file caches included; None: no limit."""
    try:
        limit = (_GROUP / "memory.max").read_text().strip()
        if limit == "max":
            return None
        used = int((_GROUP / "memory.current").read_text())
        rows = (_GROUP / "memory.stat").read_text().splitlines()
        numbers = dict(row.split() for row in rows)
        return max(int(limit) - used + int(numbers.get("inactive_file", 0)), 0)
    except (OSError, ValueError):
        return None


def _of_user():
    """Return the bytes that ``ulimit -v`` still allows; None if there is no limit."""
    if resource is None:
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return None
    try:
        pages = int((_PROC / "self" / "statm").read_text().split()[0])
    except OSError:
        return limit
    return max(limit - pages * os.sysconf("SC_PAGE_SIZE"), 0)
