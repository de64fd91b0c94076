"""OCR letters: handwritten words (Kassel; Taskar, Guestrin and Koller)."""

from typing import Literal

import numpy as np
from sklearn.utils import Bunch

from sksstruct.datasets._fetch import check_content, find_or_fetch
from sksstruct.utils._files import lines_of
from sksstruct.utils.typing import PathLike

_URL = "http://ai.stanford.edu/~btaskar/ocr/letter.data.gz"
_SHA256 = "161e5f84c20df0468612c8b1729d06f93b167eb612f6557a326b28f9320d3f5e"


def fetch_ocr_letters(
    subset: Literal["all", "fold0", "rest"] = "all",
    *,
    data_home: PathLike | None = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Handwritten words, each a sequence of binary images of 16 x 8 pixels.

    The data are 6877 words without their first letter, 52152 letters in all, in ten
    folds. The usual small problem trains on fold 0 and tests on the other folds; the
    large problem is the reverse.

    Parameters
    ----------
    subset : {"all", "fold0", "rest"}, default="all"
        Words to load.
    data_home : str or path-like, default=None
        Folder with ``ocr_letters.npz`` or ``letter.data.gz``; by default the
        environment variable ``SKSSTRUCT_DATA``, else ``~/sksstruct_data``.
    download_if_missing : bool, default=True
        Whether to fetch the file if it is missing.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``X``: list of arrays of shape (n_letters, 128), float64; ``y``: list of arrays
        of letters; ``fold``: array of shape (n_words,).

    References
    ----------
    B. Taskar, C. Guestrin and D. Koller, "Max-margin Markov networks", NIPS 2003.

    Examples
    --------
    >>> from sksstruct.datasets import fetch_ocr_letters
    >>> data = fetch_ocr_letters("fold0")  # doctest: +SKIP
    >>> data.X[0].shape, "".join(data.y[0])  # doctest: +SKIP
    ((9, 128), 'ommanding')
    """
    if subset not in ("all", "fold0", "rest"):
        raise ValueError(f"subset must be 'all', 'fold0' or 'rest', got {subset!r}")
    path = find_or_fetch(
        ["ocr_letters.npz", "letter.data.gz"],
        _URL,
        data_home=data_home,
        download_if_missing=download_if_missing,
    )
    pixels, letters, offsets, fold = (
        _read_npz(path) if path.suffix == ".npz" else _read_letter_data(path)
    )
    check_content(
        (a.tobytes() for a in (pixels, letters, offsets, fold)), _SHA256, path
    )
    names = np.array([chr(ord("a") + k) for k in range(26)])[letters]
    rows = pixels.astype(np.float64)
    keep = {"all": fold >= 0, "fold0": fold == 0, "rest": fold != 0}[subset]
    spans = [(offsets[i], offsets[i + 1]) for i in np.flatnonzero(keep)]
    return Bunch(
        X=[rows[a:b] for a, b in spans],
        y=[names[a:b] for a, b in spans],
        fold=fold[keep],
    )


def _read_npz(path):
    with np.load(path, allow_pickle=False) as data:
        return (
            data["X"].astype(np.uint8),
            data["y"].astype(np.uint8),
            data["offsets"].astype(np.int32),
            data["fold"].astype(np.uint8),
        )


def _read_letter_data(path):
    """Read columns id, letter, next id, word id, position, fold, and 128 pixels."""
    pixels, letters, offsets, fold = [], [], [0], []
    for number, line in enumerate(lines_of(path), start=1):
        columns = line.split()
        if len(columns) != 134:
            raise ValueError(
                f"{path}, line {number}: expected 134 columns, got {len(columns)}"
            )
        try:
            last = int(columns[2]) == -1
            word_fold = int(columns[5])
            row = np.array(columns[6:], dtype=np.uint8)
        except ValueError:
            raise ValueError(
                f"{path}, line {number}: all columns but the second must be whole "
                f"numbers, got {line!r:.80}"
            ) from None
        if len(columns[1]) != 1 or not "a" <= columns[1] <= "z":
            raise ValueError(
                f"{path}, line {number}: column 2 must be a letter from a to z, got "
                f"{columns[1]!r:.80}"
            )
        pixels.append(row)
        letters.append(ord(columns[1]) - ord("a"))
        if last:
            offsets.append(number)
            fold.append(word_fold)
    if len(letters) != offsets[-1]:
        raise ValueError(
            f"{path}: the last word has no last letter: next id -1 was expected"
        )
    return (
        np.array(pixels, dtype=np.uint8),
        np.array(letters, dtype=np.uint8),
        np.array(offsets, dtype=np.int32),
        np.array(fold, dtype=np.uint8),
    )
