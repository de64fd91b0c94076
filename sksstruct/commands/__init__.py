"""Command line: ``sksstruct train``, ``tag``, ``export`` and ``map``."""

import argparse
import os
import sys

from sksstruct.commands import export, tagging
from sksstruct.commands import map as map_command
from sksstruct.utils.version import __version__

__all__ = ["main"]


def main(arguments=None):
    """Run a command.

    Parameters
    ----------
    arguments : list of str, default=None
        Arguments; None: those of the process.

    Returns
    -------
    code : int
        0, or 1 if `map` found no labeling, 2 if the input is wrong, or 130 after
        an interrupt.
    """
    parser = argparse.ArgumentParser(
        prog="sksstruct", description="Structured prediction from the command line."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    for module in (tagging, export, map_command):
        module.add_parsers(commands)
    options = parser.parse_args(arguments)
    try:
        code = options.run(options)
        # who reads may be gone: now, and not at the end of the interpreter
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # whoever reads has seen enough; Python would complain again at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
