"""Reader of text files of word vectors."""

from itertools import islice

import numpy as np

from sksstruct.utils._files import cut, lines_of, reading
from sksstruct.utils.typing import PathLike

# Number of lines whose numbers are converted in one call.
_BLOCK = 1000
# Largest number of digits of a number in the first line, which must fit 64 bits.
_MOST_DIGITS = 18


def read_word_vectors(path: PathLike) -> tuple[list[str], np.ndarray]:
    """Read word vectors from a text file of word2vec, fastText or GloVe.

    Each line is a word and its numbers, separated by spaces. Files of word2vec and
    fastText have a first line with the number of words and the length of the vectors. A
    word may contain spaces, as a few words of GloVe do. Files in any other format raise
    an error.

    Parameters
    ----------
    path : str or path-like
        The file, in UTF-8; gzip-compressed if its name ends in ``.gz``.

    Returns
    -------
    words : list of str
        The words, in the order of the file.
    vectors : ndarray of shape (n_words, n_dimensions), float32
        The vectors of the words.

    Raises
    ------
    ValueError
        If a line has too few numbers, a field that is not a number, or a word that an
        earlier line has (the error gives the line number); if the first line states
        another number of words than the file has; if the file has no vectors, is not
        UTF-8, or is cut short.

    See Also
    --------
    WordVectors : The vectors of tokens as features.

    Examples
    --------
    >>> from sksstruct.feature_extraction import read_word_vectors
    >>> with open("tiny.vec", "w") as file:
    ...     _ = file.write("2 3\\nthe 0.5 1.0 0.0\\ncat 1.5 0.0 2.0\\n")
    >>> words, vectors = read_word_vectors("tiny.vec")
    >>> words, vectors.shape
    (['the', 'cat'], (2, 3))
    """
    # `lines_of` splits at line feeds only, as words may contain other white space
    with reading(path):
        return _read(lines_of(path), path)


def _read(lines, path):
    """Parse the lines of a file of word vectors; return words and vectors."""
    first = next(lines, "").rstrip("\r\n ").split(" ")
    header = len(first) == 2 and all(field.isdecimal() for field in first)
    if header and max(map(len, first)) > _MOST_DIGITS:
        raise ValueError(
            f"{path}, line 1: expected a number of words and of dimensions, got "
            f"{first!r:.80}"
        )
    width = int(first[1]) if header else len(first) - 1
    if width < 1:
        raise ValueError(f"{path}, line 1: expected a word and its numbers")
    words, blocks, number = [], [], 1 + header
    block = [] if header else [" ".join(first)]
    block += islice(lines, _BLOCK)
    while block:
        texts = []
        for k, line in enumerate(block):
            line = line.rstrip("\r\n ")
            # a word may have spaces
            word, *numbers = line.rsplit(" ", width)
            if len(numbers) != width or not word:
                raise ValueError(
                    f"{path}, line {number + k}: expected a word and {width} numbers, "
                    f"got {line!r:.80}"
                )
            words.append(word)
            texts.append(line[len(word) + 1 :])
        blocks.append(_numbers(texts, path, number))
        number += len(block)
        block = list(islice(lines, _BLOCK))
    if not words:
        raise ValueError(f"{path} has no vectors")
    if header and int(first[0]) != len(words):
        raise ValueError(
            f"{path}, line 1: the line states {first[0]} words, and the file has "
            f"{len(words)}"
        )
    if len(set(words)) < len(words):
        seen = set()
        # `seen.add` returns None, so that the search goes on until a word is in `seen`
        k = next(k for k, word in enumerate(words) if word in seen or seen.add(word))
        line = 1 + header + k
        raise ValueError(
            f"{path}, line {line}: an earlier line has the word {words[k]!r:.80}, "
            "which must have one vector"
        )
    return words, np.concatenate(blocks)


def _numbers(texts, path, number):
    """Convert texts of numbers to arrays; error messages count lines from `number`."""
    try:
        rows = np.loadtxt(texts, np.float32, comments=None, delimiter=" ", ndmin=2)
    except ValueError as error:
        if len(texts) > 1:
            for k, text in enumerate(texts):
                _numbers([text], path, number + k)
        reason = cut(str(error).partition(" at row")[0])
        raise ValueError(f"{path}, line {number}: {reason}") from None
    bad = ~np.isfinite(rows).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{path}, line {number + np.argmax(bad)}: a number is not finite in single "
            "precision"
        )
    return rows
