"""CoNLL column files, and the CoNLL-2000 chunking data."""

from collections.abc import Iterable
from typing import Literal

from sklearn.utils import Bunch

from sksstruct.datasets._conll_reader import ConllReader
from sksstruct.datasets._fetch import check_content, find_or_fetch
from sksstruct.utils.typing import PathLike

_URL = "https://www.clips.uantwerpen.be/conll2000/chunking/{}.txt.gz"
_SHA256 = {
    "train": "82033cd7a72b209923a98007793e8f9de3abc1c8b79d646c50648eb949b87cea",
    "test": "73b7b1e565fa75a1e22fe52ecdf41b6624d6f59dacb591d44252bf4d692b1628",
}


def read_conll(
    source: PathLike | Iterable[str],
    *,
    n_columns: int | None = None,
    separator: str | None = None,
    comment: str | None = None,
    empty: str | None = None,
    keep_docstart: bool = False,
    encoding: str = "utf-8",
) -> list[tuple[list[str], ...]]:
    """Read sentences in CoNLL column format.

    Each line has one token, whose columns are separated by spaces or tabs. A line
    without columns ends a sentence. A line ends with a line feed, or a carriage return
    and a line feed. Other white space, such as a no-break space, is part of a word.
    Words may contain spaces if a tab separates the columns of every line. Files in any
    other format raise an error.

    Parameters
    ----------
    source : str, path-like or iterable of str
        A file, gzip-compressed if its name ends in ``.gz``, or lines.
    n_columns : int, default=None
        Number of columns. None: the number of columns of the first token. If tabs alone
        give another number than spaces and tabs, tabs separate columns if they give the
        same number on all lines.
    separator : str, default=None
        Column separator. None: any number of spaces and tabs, or a single tab on lines
        that have the right number of columns only with tabs.
    comment : str, default=None
        Lines that begin with this string are skipped. None: no line is skipped.
    empty : str, default=None
        Text that replaces an empty column, if columns are separated by a tab or by
        `separator`. Some corpora of web text have empty tokens. None: an empty column
        is an error.
    keep_docstart : bool, default=False
        Whether to keep lines whose first column is ``-DOCSTART-`` as tokens. If False,
        such a line ends a sentence and is skipped.
    encoding : str, default="utf-8"
        Encoding of a file.

    Returns
    -------
    sentences : list of tuple of list of str
        The columns of each sentence, each with one entry per token. A file without
        tokens has no sentences.

    Raises
    ------
    ValueError
        If a line has a different number of columns or an empty column (the error gives
        the line number); if a line ends with a carriage return alone; if the file has
        another encoding, or is cut short.

    Examples
    --------
    >>> from sksstruct.datasets import read_conll
    >>> read_conll(["He PRP B-NP", "ran VBD B-VP", "", "Yes UH O"])
    [(['He', 'ran'], ['PRP', 'VBD'], ['B-NP', 'B-VP']), (['Yes'], ['UH'], ['O'])]
    """
    reader = ConllReader(n_columns, separator, comment, empty, keep_docstart, encoding)
    return reader.read(source)


def fetch_conll2000(
    subset: Literal["train", "test"] = "train",
    *,
    data_home: PathLike | None = None,
    download_if_missing: bool = True,
) -> Bunch:
    """Text chunking data of the CoNLL-2000 shared task.

    The data are 8936 training and 2012 test sentences of the Wall Street Journal with
    part-of-speech tags. The training part has 22 chunk labels, the test part 19, one of
    which, I-LST, is not in the training part.

    Parameters
    ----------
    subset : {"train", "test"}, default="train"
        Part to load.
    data_home : str or path-like, default=None
        Folder with ``conll2000/train.txt.gz``; by default the environment variable
        ``SKSSTRUCT_DATA``, else ``~/sksstruct_data``.
    download_if_missing : bool, default=True
        Whether to fetch the file if it is missing.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``words``, ``tags`` and ``labels``: lists with a list of strings for each
        sentence.

    References
    ----------
    E. F. Tjong Kim Sang and S. Buchholz, "Introduction to the CoNLL-2000 shared task:
    chunking", CoNLL-2000.

    Examples
    --------
    >>> from sksstruct.datasets import fetch_conll2000
    >>> data = fetch_conll2000("test")  # doctest: +SKIP
    >>> len(data.words), data.words[0][:3], data.labels[0][:3]  # doctest: +SKIP
    (2012, ['Rockwell', 'International', 'Corp.'], ['B-NP', 'I-NP', 'I-NP'])
    """
    if subset not in _SHA256:
        raise ValueError(f"subset must be 'train' or 'test', got {subset!r}")
    path = find_or_fetch(
        [f"conll2000/{subset}.txt.gz"],
        _URL.format(subset),
        data_home=data_home,
        download_if_missing=download_if_missing,
    )
    sentences = read_conll(path, n_columns=3)
    lines = (
        " ".join(token) + "\n"
        for s in sentences
        for token in [*zip(*s, strict=True), ()]
    )
    check_content((line.encode() for line in lines), _SHA256[subset], path)
    words, tags, labels = zip(*sentences, strict=True)
    return Bunch(words=list(words), tags=list(tags), labels=list(labels))
