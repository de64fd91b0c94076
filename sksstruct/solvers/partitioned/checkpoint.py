"""States of a run on disk, from which a run that was killed goes on.

Each block writes a file of its own, wherever it is. The file of the driver comes last,
and names the others with their digests: without it a checkpoint does not exist, so that
one that was cut short is never read.
"""

import hashlib
import io
import json
import os
from contextlib import suppress
from pathlib import Path

import numpy as np

_DRIVER = "driver.npz"


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

    def write(self, name, state):
        """Write a state; the file is there whole, or not at all.

        Returns
        -------
        digest : str
            What `read` compares.
        """
        data = pack(state)
        files, folder = self._files()
        if files is None:
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            whole = path.with_suffix(f".{os.getpid()}.part")
            whole.write_bytes(data)
            os.replace(whole, path)
        else:
            files.makedirs(folder, exist_ok=True)
            files.pipe_file(f"{folder}/{name}", data)
        return hashlib.sha256(data).hexdigest()

    def read(self, name, digest=None):
        """Read a state.

        Raises
        ------
        ValueError
            If the file is not there, or is not what was written.
        """
        files, folder = self._files()
        try:
            if files is None:
                data = (Path(folder) / name).read_bytes()
            else:
                data = files.cat_file(f"{folder}/{name}")
        except OSError as error:
            raise ValueError(
                f"there is no checkpoint in {self.url!r}, or {name} is missing from "
                "it; train with resume=False to start from the beginning"
            ) from error
        if digest is not None and hashlib.sha256(data).hexdigest() != digest:
            raise ValueError(
                f"{name} in the checkpoint {self.url!r} is not what was written there; "
                "train with resume=False to start from the beginning"
            )
        try:
            return unpack(data)
        except Exception as error:
            raise ValueError(
                f"{name} in {self.url!r} is not a checkpoint, or is truncated; train "
                "with resume=False to start from the beginning"
            ) from error

    def write_driver(self, state):
        """Write the state of the driver, which makes the checkpoint valid."""
        self.write(_DRIVER, state)

    def read_driver(self):
        """Read the state of the driver."""
        return self.read(_DRIVER)

    def remove(self, names):
        """Remove files, if they are still there."""
        files, folder = self._files()
        for name in names:
            with suppress(OSError):
                if files is None:
                    os.remove(Path(folder) / name)
                else:
                    files.rm_file(f"{folder}/{name}")


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
