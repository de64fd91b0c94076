"""
Features of pairs of words
==========================

What the example on word alignment knows of an English and a French word: how often they
occur together, where they are, and how alike they look (Taskar, Lacoste-Julien and
Klein, 2005).
"""

from itertools import takewhile

import numpy as np


def stems(words):
    """The first four letters: endings of the two languages say little."""
    return [word.lower()[:4] for word in words]


def dice_counts(pairs):
    """Dice's coefficient of every pair of stems, from sentences without links."""
    english = {s: k for k, s in enumerate({s for p in pairs for s in stems(p.english)})}
    french = {s: k for k, s in enumerate({s for p in pairs for s in stems(p.french)})}
    both = np.zeros((len(english), len(french)), dtype=np.float32)
    for pair in pairs:
        e = sorted({english[s] for s in stems(pair.english)})
        f = sorted({french[s] for s in stems(pair.french)})
        both[np.ix_(e, f)] += 1
    once = np.zeros(len(english)), np.zeros(len(french))
    for pair in pairs:
        for count, numbers, words in zip(
            once, (english, french), (pair.english, pair.french), strict=True
        ):
            count[[numbers[s] for s in set(stems(words))]] += 1
    both *= 2
    both /= once[0][:, None] + once[1]
    return lambda pair: both[
        np.ix_(
            [english[s] for s in stems(pair.english)],
            [french[s] for s in stems(pair.french)],
        )
    ].astype(float)


def common_prefix(a, b):
    """Share of the longer word that both begin with."""
    same = takewhile(lambda z: z[0] == z[1], zip(a.lower(), b.lower(), strict=False))
    return len(list(same)) / max(len(a), len(b))


def pair_features(pair, dice):
    """Features of all pairs of words of two sentences, (n_english, n_french, 6)."""
    d = dice(pair)
    n, m = d.shape
    place = np.abs((np.arange(n)[:, None] + 0.5) / n - (np.arange(m) + 0.5) / m)
    around = np.pad(d, 1)
    prefixes = [[common_prefix(e, f) for f in pair.french] for e in pair.english]
    return np.stack(
        [
            np.sqrt(d),
            np.sqrt(place),
            np.array(prefixes),
            d >= d.max(axis=1, keepdims=True),  # the best for the English word
            d >= d.max(axis=0, keepdims=True),  # the best for the French word
            around[:-2, :-2] + around[2:, 2:],  # what goes along the diagonal
        ],
        axis=2,
    ).astype(float)
