"""Where figures are from: the machine, the versions of programs, and the commit."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import sksstruct


def machine():
    """The processor, as far as the system tells, and its threads."""
    return f"{_processor()}, {os.cpu_count()} threads, one used"


def _processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(li.split(":")[1].strip() for li in lines if "model name" in li)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions(*names):
    """Versions of Python, of what the package needs, and of other programs if there."""
    found = {"python": platform.python_version()}
    for name in ("numpy", "scipy", "scikit-learn", *names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "sksstruct": sksstruct.__version__}


def commit():
    """Commit of the checkout that this file is in; empty outside of one."""
    # the results themselves, which are written one by one, are no change
    changes = _git(
        "status", "--porcelain", "-uno", "--", ":/", ":(top,exclude)doc/papers"
    )
    return _git("rev-parse", "--short=8", "HEAD") + ("-dirty" if changes else "")


def _git(*command):
    """What git prints; empty if it cannot be run or fails."""
    folder = Path(__file__).parent
    try:
        done = subprocess.run(
            ["git", *command], cwd=folder, capture_output=True, text=True
        )
    except OSError:
        return ""
    return done.stdout.strip()
