"""States of a run on disk, from which a run that was killed goes on.

Each block writes a file of its own, wherever it is. The file of the driver comes last,
and names the others with their digests: without it a checkpoint does not exist, so that
one that was cut short is never read.
"""

import hashlib
import io
import json
import os
import re
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np

from sksstruct.utils.entries import Entries
from sksstruct.utils.version import __version__

_FORMAT, _VERSION = "sksstruct.Checkpoint", 1
_DRIVER = "driver.npz"
# What to do with files that are no use.
_REMEDY = "train with resume=False to start from the beginning"


class Checkpoint:
    """A folder of states.

    Parameters
    ----------
    url : str or path
        A local folder, or with fsspec installed a URL that it knows. Workers on other
        machines must reach it too.
    """

    def __init__(self, url):
        self.url = os.fspath(url)

    def _files(self):
        """The file system, and the path of the folder on it."""
        if "://" not in self.url:
            return None, self.url
        try:
            import fsspec
        except ImportError as error:
            raise ImportError(
                f"checkpoint={self.url!r} needs fsspec: pip install fsspec"
            ) from error
        return fsspec.core.url_to_fs(self.url)

    def prepare(self):
        """Make the folder, so that what cannot be one is known before any work."""
        files, folder = self._files()
        if files is not None:
            files.makedirs(folder, exist_ok=True)
            return
        if Path(folder).exists() and not Path(folder).is_dir():
            raise ValueError(f"checkpoint={self.url!r} is a file; expected a folder")
        Path(folder).mkdir(parents=True, exist_ok=True)
        if (Path(folder) / _DRIVER).is_dir():
            raise ValueError(f"{_DRIVER} in checkpoint={self.url!r} is a folder")

    def write(self, name, state, kind="block"):
        """Write a state; the file is there whole, or not at all.

        Parameters
        ----------
        name : str
            Name of the file.
        state : dict
            What is written.
        kind : {"driver", "block", "sweep"}
            What the state is of.

        Returns
        -------
        digest : str
            What `read` compares.
        """
        about = {"format": _FORMAT, "version": _VERSION, "kind": kind}
        data = pack({**about, "library": __version__, "state": state})
        files, folder = self._files()
        if files is None:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = path.with_suffix(f".{os.getpid()}.part")
            try:
                whole.write_bytes(data)
                os.replace(whole, path)
            except BaseException:
                with suppress(OSError):
                    whole.unlink()
                raise
        else:
            files.makedirs(folder, exist_ok=True)
            files.pipe_file(f"{folder}/{name}", data)
        return hashlib.sha256(data).hexdigest()

    def read(self, name, digest=None, kind="block"):
        """Read a state.

        Returns
        -------
        entries : Entries
            What was written.

        Raises
        ------
        ValueError
            If the file is not there, or is not what was written.
        """
        data = self._bytes(name)
        if digest is not None and hashlib.sha256(data).hexdigest() != digest:
            raise self.error(name, "is not what was written there")
        try:
            about = Entries(unpack(data), name)
            about = about if about.text("format") == _FORMAT else None
        except Exception as error:
            raise self.error(name, "is not a checkpoint, or is truncated") from error
        if about is None or about.whole("version") != _VERSION:
            raise self.error(name, "has another format than this version reads")
        if about.text("kind") != kind:
            raise self.error(name, f"is the file of a {about.text('kind')}")
        library = about.text("library")
        # once for all files
        if kind == "driver" and library != __version__:
            warnings.warn(
                f"the checkpoint {self.url!r} was written by sksstruct {library}, and "
                f"this is {__version__}: the last bits of the result may differ",
                UserWarning,
                stacklevel=2,
            )
        state = about.get("state", dict, "a dict")
        return Entries(state, f"{name} in the checkpoint {self.url!r}")

    def _bytes(self, name):
        """What is in a file."""
        files, folder = self._files()
        try:
            if files is None:
                return (Path(folder) / name).read_bytes()
            return files.cat_file(f"{folder}/{name}")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise ValueError(
                f"there is no checkpoint in {self.url!r}, or {name} is missing from "
                f"it; {_REMEDY}"
            ) from error
        except OSError as error:
            raise self.error(name, f"cannot be read: {error.strerror}") from error

    def error(self, name, what):
        """An error that says what is wrong with a file."""
        return ValueError(f"{name} in the checkpoint {self.url!r} {what}; {_REMEDY}")

    def other_run(self):
        """An error: the files are there, but not of this run."""
        return ValueError(
            f"the checkpoint in {self.url!r} belongs to another run: data or "
            f"parameters differ; {_REMEDY}"
        )

    def named(self, files, pattern):
        """Names and digests of files that a driver lists; none is outside the folder.

        Parameters
        ----------
        files : list
            What the driver lists.
        pattern : str
            What file k is called; a regular expression, with ``{k}`` for k.
        """
        named = []
        for k, each in enumerate(files):
            pair = each if isinstance(each, list) and len(each) == 2 else [None]
            if not all(isinstance(part, str) for part in pair) or not re.fullmatch(
                pattern.format(k=k), pair[0]
            ):
                raise self.error(_DRIVER, f"lists {each!r:.80} as file {k}")
            named.append(tuple(pair))
        return named

    def write_driver(self, state):
        """Write the state of the driver, which makes the checkpoint valid."""
        self.write(_DRIVER, state, "driver")

    def read_driver(self, identity):
        """Read the state of the driver of the run that has an identity."""
        entries = self.read(_DRIVER, kind="driver")
        # before anything else: other solvers have other states
        if entries.text("identity") != identity:
            raise self.other_run()
        return entries

    def remove(self, names):
        """Remove files, if they are still there."""
        files, folder = self._files()
        for name in names:
            with suppress(OSError):
                if files is None:
                    os.remove(Path(folder) / name)
                else:
                    files.rm_file(f"{folder}/{name}")


def warn_unwritten(checkpoint, error, kept):
    """Warn that a checkpoint could not be written: training goes on.

    Parameters
    ----------
    checkpoint : Checkpoint
        The checkpoint.
    error : OSError
        Why.
    kept : str
        What is there.
    """
    warnings.warn(
        f"the checkpoint {checkpoint.url!r} could not be written ({error}); training "
        f"goes on, and {kept}",
        UserWarning,
        stacklevel=2,
    )


def pack(state):
    """Bytes of a dict of dicts, lists, arrays, numbers, strings and None."""
    arrays = {}

    def outline(value):
        if isinstance(value, np.ndarray):
            arrays[f"a{len(arrays)}"] = value
            return {"array": len(arrays) - 1}
        if isinstance(value, dict):
            return {"dict": {key: outline(each) for key, each in value.items()}}
        if isinstance(value, (list, tuple)):
            return {"list": [outline(each) for each in value]}
        return {"value": value.item() if isinstance(value, np.generic) else value}

    text = json.dumps(outline(state)).encode()
    out = io.BytesIO()
    np.savez(out, outline=np.frombuffer(text, dtype=np.uint8), **arrays)
    return out.getvalue()


def unpack(data):
    """What `pack` was given, tuples as lists."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        text = json.loads(arrays["outline"].tobytes())

        def value(node):
            ((kind, inner),) = node.items()
            if kind == "array":
                return arrays[f"a{inner}"]
            if kind == "dict":
                return {key: value(each) for key, each in inner.items()}
            return [value(each) for each in inner] if kind == "list" else inner

        return value(text)


def fingerprint(*parts):
    """A short text that tells whether two runs solve the same problem alike."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()
