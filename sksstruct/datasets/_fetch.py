"""Files in a data folder, downloaded from public addresses if they are missing."""

import os
import tempfile
from hashlib import sha256
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen


def get_data_home(data_home=None):
    """Return the folder of the data sets.

    Parameters
    ----------
    data_home : str or path-like, default=None
        The folder; by default the environment variable ``SKSSTRUCT_DATA``, else
        ``~/sksstruct_data``.

    Returns
    -------
    folder : pathlib.Path
        The folder, which need not exist.
    """
    if data_home is None:
        data_home = os.environ.get("SKSSTRUCT_DATA", "~/sksstruct_data")
    return Path(data_home).expanduser()


def find_or_fetch(names, url, *, data_home=None, download_if_missing=True):
    """Return the path of the first file that exists, or of a fresh download.

    Parameters
    ----------
    names : sequence of str
        Names of files in the data folder that may hold the data; a download is stored
        under the last name.
    url : str
        Address to fetch the file from.
    data_home : str or path-like, default=None
        See `get_data_home`.
    download_if_missing : bool, default=True
        Whether to fetch the file if it is missing.

    Raises
    ------
    OSError
        If the file is missing and is not, or cannot be, fetched.
    """
    folder = get_data_home(data_home)
    for name in names:
        if (folder / name).is_file():
            return folder / name
    if not download_if_missing:
        raise OSError(
            f"{names[-1]} not found in {folder}, and download_if_missing=False: put "
            "the file there, or name another folder by data_home"
        )
    target = folder / names[-1]
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with urlopen(url, timeout=60) as response:
            content = response.read()
    except (URLError, TimeoutError) as error:
        raise OSError(
            f"{names[-1]} not found in {folder}, and fetching it from {url} failed: "
            f"{error}. Put the file there, or name another folder by data_home."
        ) from error
    # write a temporary file first: an incomplete file must not have the final name
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, target)
    return target


def check_content(pieces, expected, path):
    """Raise an error unless the SHA-256 of the data that were read is `expected`.

    The hash is of the data, not of the file, because several file formats have the same
    data.
    """
    digest = sha256()
    for piece in pieces:
        digest.update(piece)
    if digest.hexdigest() != expected:
        raise OSError(
            f"the data in {path} are not the expected ones: SHA-256 "
            f"{digest.hexdigest()} instead of {expected}. Delete the file to fetch it "
            "again."
        )


def find_file(name, data_home=None):
    """Return the path of a file that cannot be fetched.

    Raises
    ------
    OSError
        If the file is missing.
    """
    folder = get_data_home(data_home)
    if not (folder / name).is_file():
        raise OSError(
            f"{name} not found in {folder}: put the file there, or name another folder "
            "by data_home"
        )
    return folder / name
