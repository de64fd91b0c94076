"""Phrases in sentences, by binary search in a sorted list of phrases.

Words are numbers, and phrases are rows of numbers in lexicographic order. The phrases
that begin with the words read so far are a range of the list, and each further word
narrows the range. A table has the range of phrases that begin with a word: most words
of a text begin no phrase, and need no search.
"""

import numpy as np

from libc.stdint cimport int8_t, int32_t, int64_t


cdef struct Phrases:
    const int32_t* words
    const int64_t* offsets
    const int64_t* by_word


cdef inline int64_t lower_bound(
    const Phrases* phrases, int64_t low, int64_t high, Py_ssize_t depth, int32_t word
) noexcept nogil:
    """Return the first phrase of a range with a word >= `word` at `depth`, or `high`.

    All phrases of the range must be longer than `depth`.
    """
    cdef int64_t middle
    while low < high:
        middle = (low + high) // 2
        if phrases.words[phrases.offsets[middle] + depth] < word:
            low = middle + 1
        else:
            high = middle
    return low


cdef int64_t scan(
    const Phrases* phrases, const int32_t[::1] words, const int64_t[::1] offsets,
    int64_t* starts, int64_t* found
) noexcept nogil:
    """Count the matches; write start and phrase of each unless `starts` is NULL."""
    cdef int64_t count = 0, low, high, t, start
    cdef Py_ssize_t i, depth
    cdef int32_t word
    for i in range(offsets.shape[0] - 1):
        for start in range(offsets[i], offsets[i + 1]):
            word = words[start]
            if word < 0:
                continue
            low, high = phrases.by_word[word], phrases.by_word[word + 1]
            depth, t = 1, start + 1
            while low < high:
                # phrases of exactly the words read so far are the first of the range
                while (low < high
                       and phrases.offsets[low + 1] - phrases.offsets[low] == depth):
                    if starts != NULL:
                        starts[count], found[count] = start, low
                    count += 1
                    low += 1
                if t == offsets[i + 1] or words[t] < 0:
                    break
                word = words[t]
                low = lower_bound(phrases, low, high, depth, word)
                high = lower_bound(phrases, low, high, depth, word + 1)
                depth += 1
                t += 1
    return count


def find_phrases(
    const int32_t[::1] words, const int64_t[::1] offsets,
    const int32_t[::1] phrase_words, const int64_t[::1] phrase_offsets,
    const int64_t[::1] by_word
):
    """Return all matches of phrases in sentences.

    Parameters
    ----------
    words : ndarray of int32
        Words of all sentences; a negative number stands for a word of no phrase.
    offsets : ndarray of int64
        Index of the first word of each sentence, and the number of words.
    phrase_words, phrase_offsets : ndarray
        Words and offsets of the phrases, which are in lexicographic order, not empty.
    by_word : ndarray of int64
        Entry k is the index of the first phrase whose first word is at least k; the
        last entry is the number of phrases.

    Returns
    -------
    starts, found : ndarray of int64
        First word and number of the phrase of each match, ordered by the first word and
        then by length.
    """
    cdef Phrases phrases
    cdef int64_t[::1] starts, found
    cdef int64_t count
    if not phrase_words.shape[0] or not words.shape[0]:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    phrases.words, phrases.offsets = &phrase_words[0], &phrase_offsets[0]
    phrases.by_word = &by_word[0]
    with nogil:
        count = scan(&phrases, words, offsets, NULL, NULL)
    starts, found = np.empty(count, np.int64), np.empty(count, np.int64)
    if count:
        with nogil:
            scan(&phrases, words, offsets, &starts[0], &found[0])
    return np.asarray(starts), np.asarray(found)


def longest(
    const int64_t[::1] starts, const int64_t[::1] stops, const int32_t[::1] kinds,
    Py_ssize_t n_kinds
):
    """Select non-overlapping matches of each kind: from left to right, the longest.

    Parameters
    ----------
    starts, stops : ndarray of int64
        Matches, in the order of `find_phrases`.
    kinds : ndarray of int32
        Kinds of the matches. Matches of two kinds may overlap.
    n_kinds : int
        Number of kinds.

    Returns
    -------
    keep : ndarray of bool
        Whether each match is selected.
    """
    cdef int8_t[::1] keep = np.zeros(starts.shape[0], np.int8)
    cdef int64_t[::1] last = np.full(n_kinds, -1, np.int64)
    cdef Py_ssize_t k
    cdef int64_t before
    with nogil:
        for k in range(starts.shape[0]):
            before = last[kinds[k]]
            if before >= 0 and starts[before] == starts[k]:
                keep[before] = 0
            elif before >= 0 and stops[before] > starts[k]:
                continue
            keep[k] = 1
            last[kinds[k]] = k
    return np.asarray(keep).astype(bool)
