"""Command line: ``sksstruct train``, ``tag``, ``export`` and ``map``.

Each command has a module, with its parser and its function. `_reading.py` reads files
of columns, `_models.py` reads and evaluates models, and `_column_tagger.py` labels by a
model of CRFsuite without importing scikit-learn, so that ``tag`` starts at once.
"""

import argparse
import os
import sys
from importlib import import_module

from sksstruct.utils.version import __version__

__all__ = ["main"]

# Commands and their modules, in the order of the help.
_MODULES = {"train": "tagging", "tag": "tag", "export": "export", "map": "map"}


def main(arguments=None):
    """Run a command of ``sksstruct``, and return its exit code.

    Parameters
    ----------
    arguments : list of str, default=None
        Arguments of the command line. None: ``sys.argv[1:]``.

    Returns
    -------
    code : int
        0, or 1 if `map` found no labeling or the reader of the output is gone, 2 if the
        input is wrong, or 130 after an interrupt.
    """
    parser = argparse.ArgumentParser(
        prog="sksstruct", description="Structured prediction from the command line."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(dest="command", required=True)
    # without arguments, the process was started for the command
    owns_process = arguments is None
    arguments = sys.argv[1:] if owns_process else list(arguments)
    # Only the module of the command is imported: a tagger starts in hundredths of a
    # second.
    asked = _MODULES.get(arguments[0]) if arguments else None
    for module in _MODULES.values() if asked is None else [asked]:
        import_module(f"{__name__}.{module}").add_parsers(commands)
    options = parser.parse_args(arguments)
    options.owns_process = owns_process
    try:
        code = options.run(options)
        # if the reader of a pipe is gone, this raises the error that is caught below
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # the reader has closed the pipe; Python would flush again at its end, and print
        # another error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (OSError, ValueError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
