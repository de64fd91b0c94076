"""States of a run on disk, from which an interrupted run continues.

Each block writes its own file, wherever the block is. The driver writes its file last,
with names and digests of the files of blocks: a checkpoint is valid only with this
file, so that an incomplete checkpoint is never read.
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
# Advice for checkpoints that cannot be used.
_REMEDY = "train with resume=False to start from the beginning"


class Checkpoint:
    """A folder with states of a run.

    Parameters
    ----------
    url : str or path
        A local folder, or a URL that fsspec supports. Workers on other machines
        must be able to reach it.
    """

    def __init__(self, url):
        self.url = os.fspath(url)

    def _files(self):
        """Return the file system, None if local, and the folder's path on it."""
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
        """Make the folder before training, so that a bad path is reported at once."""
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
        """Write a state atomically: the file is complete, or does not exist.

        Parameters
        ----------
        name : str
            Name of the file.
        state : dict
            The state to write.
        kind : {"driver", "block", "sweep"}
            Whether the state is that of the driver, of a block or of a sweep.

        Returns
        -------
        digest : str
            Digest of the file, which `read` compares.
        """
        about = {"format": _FORMAT, "version": _VERSION, "kind": kind}
        data = pack({**about, "library": __version__, "state": state})
        files, folder = self._files()
        if files is None:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_suffix(f".{os.getpid()}.part")
            try:
                temporary.write_bytes(data)
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
        else:
            files.makedirs(folder, exist_ok=True)
            files.pipe_file(f"{folder}/{name}", data)
        return hashlib.sha256(data).hexdigest()

    def read(self, name, digest=None, kind="block"):
        """Read the state in a file of the checkpoint.

        Returns
        -------
        entries : Entries
            The entries of the state.

        Raises
        ------
        ValueError
            If the file does not exist, is damaged, or is of another kind.
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
        # the driver's file is read once, so that there is a single warning
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
        """Return the contents of a file."""
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
        """Return an error that names a file and its problem."""
        return ValueError(f"{name} in the checkpoint {self.url!r} {what}; {_REMEDY}")

    def other_run(self):
        """Return an error for files that belong to another run."""
        return ValueError(
            f"the checkpoint in {self.url!r} belongs to another run: data or "
            f"parameters differ; {_REMEDY}"
        )

    def named(self, files, pattern):
        """Check and return the names and digests of the files that a driver lists.

        Parameters
        ----------
        files : list
            The list in the driver's state.
        pattern : str
            Regular expression for the name of file k, with ``{k}`` for k; excludes
            other folders.
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
        """Read the state of the driver; an error if its identity is different."""
        entries = self.read(_DRIVER, kind="driver")
        # the identity is checked first, as other solvers have other entries
        if entries.text("identity") != identity:
            raise self.other_run()
        return entries

    def remove(self, names):
        """Remove the files with the given names, if they exist."""
        files, folder = self._files()
        for name in names:
            with suppress(OSError):
                if files is None:
                    os.remove(Path(folder) / name)
                else:
                    files.rm_file(f"{folder}/{name}")


def warn_unwritten(checkpoint, error, kept):
    """Warn that a checkpoint could not be written, while training continues.

    Parameters
    ----------
    checkpoint : Checkpoint
        The checkpoint.
    error : OSError
        The reason.
    kept : str
        The state of the checkpoint, for the message.
    """
    warnings.warn(
        f"the checkpoint {checkpoint.url!r} could not be written ({error}); training "
        f"goes on, and {kept}",
        UserWarning,
        stacklevel=2,
    )


def pack(state):
    """Return the bytes of a dict of dicts, lists, arrays, numbers, strings and None."""
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
    """Return the dict that was given to `pack`, with tuples as lists."""
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
    """Return a text that is equal for two runs of the same problem and parameters."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()
