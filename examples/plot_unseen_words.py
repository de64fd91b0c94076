"""
=========================================
Clusters and gazetteers for unseen words
=========================================

A tagger that learns from few sentences meets names that it has never seen. This example
gives it two kinds of knowledge that need no labels: clusters of words, learned from raw
text, and a gazetteer, a list of names. The :ref:`user guide <lexical>` says when each
of them pays on real text.
"""

# %%
# Generate sentences from templates. Names are many, and some look alike: "Mara" is a
# person, and "Maro" is a city. So the letters of a name do not tell what it is, and
# words nearby tell it only sometimes.
import matplotlib.pyplot as plt
import numpy as np

from sksstruct import make_tagger
from sksstruct.feature_extraction import (
    ClusterFeatures,
    ColumnFeatures,
    GazetteerFeatures,
    SequenceVectorizer,
    WordClusters,
)
from sksstruct.metrics import chunk_f1_score

rng = np.random.RandomState(0)
starts = [a + b for a in "BDFGKLMNPRST" for b in ("a", "e", "o", "ala", "eri", "uno")]
names = [start + middle for start in starts for middle in ("ra", "ro", "li", "len")]
names = rng.permutation(sorted(set(names))).tolist()
people, cities = names[: len(names) // 2], names[len(names) // 2 :]
templates = [
    "PER met PER",
    "PER saw CITY again",
    "CITY is far from CITY",
    "we met PER in CITY",
    "they like CITY",
    "they like PER",
    "PER was late",
    "CITY was cold",
]


def sentence():
    words, labels = [], []
    for part in templates[rng.randint(len(templates))].split():
        known = {"PER": people, "CITY": cities}.get(part)
        words.append(part if known is None else known[rng.randint(len(known))])
        labels.append("O" if known is None else f"B-{part}")
    return words, labels


raw_text = [sentence()[0] for _ in range(4000)]
X, y = zip(*[sentence() for _ in range(160)], strict=True)
X_test, y_test = zip(*[sentence() for _ in range(1000)], strict=True)

# %%
# Learn clusters from the raw text. Words with similar neighbors share the first bits of
# their paths.
clusters = WordClusters(20, random_state=0).fit(raw_text)
for word in (people[0], people[1], cities[0], cities[1], "met", "saw"):
    print(f"{word:8s} {clusters.paths_[word.lower()]}")

# %%
# The gazetteer has half of the names. Each transformer adds attributes to the tokens
# that the one before returns, and `SequenceVectorizer` makes rows of them.
# `ColumnFeatures` returns lists of strings, in which the word is ``w[0]=...``.
lists = {"person": people[::2], "city": cities[::2]}
added = {
    "words, affixes and shapes": [],
    "with a gazetteer": [GazetteerFeatures(lists, word="w[0]")],
    "with clusters": [ClusterFeatures(clusters.paths_, prefixes=(2, 4), word="w[0]")],
}
sizes = [10, 20, 40, 80, 160]
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for what, steps in added.items():
    scores = []
    for n in sizes:
        steps_before = ColumnFeatures(), *steps, SequenceVectorizer()
        tagger = make_tagger(*steps_before, random_state=0).fit(X[:n], y[:n])
        scores.append(chunk_f1_score(y_test, tagger.predict(X_test)))
    print(f"{what:26s}", " ".join(f"{score:.3f}" for score in scores))
    ax.plot(sizes, scores, ".-", label=what)
ax.set(xscale="log", xlabel="training sentences", ylabel="chunk F1 on new sentences")
ax.set_xticks(sizes, map(str, sizes))
ax.minorticks_off()
ax.legend()
plt.show()
