"""Data of matchings: words of the Hansards, landmarks of the CMU house and hotel."""

from typing import Literal

import numpy as np
from sklearn.utils import Bunch

from sksstruct.datasets._fetch import find_file
from sksstruct.utils._files import lines_of
from sksstruct.utils.typing import PathLike


def load_hansards(*, data_home: PathLike | None = None) -> Bunch:
    """English and French sentences with aligned words (HLT-NAACL 2003 shared task).

    Parameters
    ----------
    data_home : str or path-like, default=None
        Folder with ``matching/hansards_{trial,test,unaligned}.tsv.gz``; by default the
        environment variable ``SKSSTRUCT_DATA``, else ``~/sksstruct_data``.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``trial`` (37 pairs), ``test`` (447) and ``unaligned`` (2383): each a list of
        Bunch with ``english`` and ``french``, lists of words. Pairs in ``trial`` and
        ``test`` also have ``links``, an array of shape (n_english, n_french): 1 for a
        sure link, -1 for a possible link, 0 for no link.

    Raises
    ------
    OSError
        If a file is missing; the files cannot be fetched.
    ValueError
        If a line is not in the expected form; the error gives the line number.

    References
    ----------
    R. Mihalcea and T. Pedersen, "An evaluation exercise for word alignment", HLT-NAACL
    2003 workshop.

    Examples
    --------
    >>> from sksstruct.datasets import load_hansards
    >>> pair = load_hansards().trial[0]  # doctest: +SKIP
    >>> len(pair.english), len(pair.french), pair.links.shape  # doctest: +SKIP
    (28, 29, (28, 29))
    """
    out = Bunch()
    for name in ("trial", "test", "unaligned"):
        path = find_file(f"matching/hansards_{name}.tsv.gz", data_home)
        out[name] = [
            _pair(line.rstrip("\n").split("\t"), f"{path}, line {number}", name)
            for number, line in enumerate(lines_of(path), start=1)
        ]
    return out


def _pair(columns, where, name):
    expected = 2 if name == "unaligned" else 4
    if len(columns) != expected:
        raise ValueError(
            f"{where}: expected {expected} columns with tabs between them, got "
            f"{len(columns)}"
        )
    pair = Bunch(english=columns[0].split(), french=columns[1].split())
    if name == "unaligned":
        return pair
    pair.links = np.zeros((len(pair.english), len(pair.french)), dtype=np.int8)
    for column, value in ((columns[3], -1), (columns[2], 1)):
        for link in column.split():
            try:
                french, english = map(int, link.split("-"))
                # NumPy would count negative indices from the end
                if min(french, english) < 0:
                    raise IndexError
                pair.links[english, french] = value
            except (ValueError, IndexError):
                raise ValueError(
                    f"{where}: {link!r:.80} is not a link of {len(pair.french)} and "
                    f"{len(pair.english)} words"
                ) from None
    return pair


def load_cmu_house(
    sequence: Literal["house", "hotel"] = "house", *, data_home: PathLike | None = None
) -> Bunch:
    """Landmarks of a toy house, or hotel, that turns from frame to frame.

    A landmark has the same number in every frame.

    Parameters
    ----------
    sequence : {"house", "hotel"}, default="house"
        Sequence to load.
    data_home : str or path-like, default=None
        Folder with ``matching/cmu_house_hotel.npz``; by default the environment
        variable ``SKSSTRUCT_DATA``, else ``~/sksstruct_data``.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``points``: array of shape (n_frames, 30, 2); for the house also ``contexts``:
        shape contexts, (n_frames, 30, 60), and ``adjacency``: (n_frames, 30, 30), the
        Delaunay edges.

    Raises
    ------
    OSError
        If the file is missing; it cannot be fetched.

    References
    ----------
    T. Caetano, J. McAuley, L. Cheng, Q. Le and A. Smola, "Learning graph matching",
    PAMI 31(6), 2009.

    Examples
    --------
    >>> from sksstruct.datasets import load_cmu_house
    >>> house = load_cmu_house()  # doctest: +SKIP
    >>> house.points.shape, house.contexts.shape  # doctest: +SKIP
    ((111, 30, 2), (111, 30, 60))
    """
    if sequence not in ("house", "hotel"):
        raise ValueError(f"sequence must be 'house' or 'hotel', got {sequence!r}")
    path = find_file("matching/cmu_house_hotel.npz", data_home)
    with np.load(path, allow_pickle=False) as data:
        out = Bunch(points=data[sequence])
        if sequence == "house":
            out.contexts = data["house_scf"].astype(np.float64)
            out.adjacency = data["house_adj"].astype(bool)
    return out
