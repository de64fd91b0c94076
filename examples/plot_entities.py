"""
===============================
Find names of people and places
===============================

This example trains a tagger that finds entities in text: names of people, places and
organizations. It returns each entity with its probability. The sentences are few, so
that you can read them all; the same code takes any number of them.
"""

# %%
# The labels stand behind the words: B begins a name, and I continues it. Words without
# a label are outside all names, O. Your own data may be a CoNLL file or a table: see
# :doc:`/how_to/tables`.
import matplotlib.pyplot as plt

from sksstruct import make_tagger
from sksstruct.feature_extraction import ColumnFeatures, SequenceVectorizer
from sksstruct.metrics import chunk_classification_report
from sksstruct.plotting import SequenceDisplay

TRAIN = """\
Ada/B-PER Lovelace/I-PER was born in London/B-LOC .
Emmy/B-PER Noether/I-PER taught at Bryn/B-ORG Mawr/I-ORG College/I-ORG .
Alan/B-PER Turing/I-PER studied at King's/B-ORG College/I-ORG in Cambridge/B-LOC .
Later he worked at the University/B-ORG of/I-ORG Manchester/I-ORG .
Marie/B-PER Curie/I-PER moved from Warsaw/B-LOC to Paris/B-LOC in 1891 .
She was a professor at the University/B-ORG of/I-ORG Paris/I-ORG .
Carl/B-PER Friedrich/I-PER Gauss/I-PER lived in Göttingen/B-LOC .
The observatory of Göttingen/B-LOC was new when Gauss/B-PER became its director .
Grace/B-PER Hopper/I-PER joined the Navy/B-ORG in 1943 .
Before that she taught at Vassar/B-ORG College/I-ORG .
In Vienna/B-LOC , Lise/B-PER Meitner/I-PER wrote her thesis on heat .
Otto/B-PER Hahn/I-PER and Lise/B-PER Meitner/I-PER worked in Berlin/B-LOC .
The Royal/B-ORG Society/I-ORG elected Charles/B-PER Babbage/I-PER in 1816 .
Charles/B-PER Babbage/I-PER met Ada/B-PER Lovelace/I-PER at a party in London/B-LOC .
Niels/B-PER Bohr/I-PER founded an institute in Copenhagen/B-LOC .
It is a part of the University/B-ORG of/I-ORG Copenhagen/I-ORG .
Sofia/B-PER Kovalevskaya/I-PER became a professor in Stockholm/B-LOC .
The letter from Stockholm/B-LOC arrived when nobody expected it .
Srinivasa/B-PER Ramanujan/I-PER wrote to Hardy/B-PER from Madras/B-LOC .
Hardy/B-PER invited him to Trinity/B-ORG College/I-ORG .
The journey from Madras/B-LOC to England/B-LOC took a month .
Rosalind/B-PER Franklin/I-PER took pictures at King's/B-ORG College/I-ORG .
The Nobel/B-ORG Foundation/I-ORG is in Stockholm/B-LOC .
Euler/B-PER left Basel/B-LOC for the Academy/B-ORG of/I-ORG Sciences/I-ORG .
It rained in Cambridge/B-LOC , and the lecture was short .
Most of the letters are lost .
The machine was never finished , but the drawings are in a museum in London/B-LOC .
"""
TEST = """\
Dorothy/B-PER Hodgkin/I-PER was born in Cairo/B-LOC .
Kurt/B-PER Gödel/I-PER moved from Vienna/B-LOC to Princeton/B-LOC .
David/B-PER Hilbert/I-PER taught at the University/B-ORG of/I-ORG Göttingen/I-ORG .
The Royal/B-ORG Society/I-ORG elected Paul/B-PER Dirac/I-PER in 1930 .
Max/B-PER Born/I-PER and Werner/B-PER Heisenberg/I-PER worked in Göttingen/B-LOC .
Bell/B-ORG Labs/I-ORG hired Claude/B-PER Shannon/I-PER when he left Princeton/B-LOC .
Cambridge/B-ORG University/I-ORG Press/I-ORG printed the thesis of Hodgkin/B-PER .
Nobody expected that the museum in Manchester/B-LOC was new .
"""


def read(text):
    """Lists of the words of each sentence, and of their labels."""
    lines = [line.split() for line in text.splitlines()]
    words = [[token.partition("/")[0] for token in line] for line in lines]
    return words, [[token.partition("/")[2] or "O" for token in line] for line in lines]


X, y = read(TRAIN)
X_test, y_test = read(TEST)
print(*zip(X[0], y[0], strict=True))

# %%
# `ColumnFeatures` describes each word by itself, its neighbors, its affixes and its
# shape. ``loss="log"`` trains a conditional random field, which has probabilities.
# ``forbidden_transitions="bio"`` forbids labels that do not fit together, such as I-PER
# after O.
tagger = make_tagger(
    ColumnFeatures(),
    SequenceVectorizer(),
    loss="log",
    forbidden_transitions="bio",
    random_state=0,
)
tagger.fit(X, y)

# %%
# The entities of new sentences. Many of their words are in no training sentence: there,
# capital letters and neighbors decide. The probability says how certain the tagger is.
for words, entities in zip(X_test, tagger.predict_entities(X_test), strict=True):
    print(" ".join(words))
    for start, stop, kind, probability in entities:
        print(f"    {kind}  {probability:.2f}  {' '.join(words[start:stop])}")

# %%
# An entity counts as found if both ends and the kind are right. "Bell Labs" begins a
# sentence with two capitals, as persons do here. More sentences help, and so does other
# knowledge of words: see :ref:`sphx_glr_auto_examples_plot_unseen_words.py`.
print(chunk_classification_report(y_test, tagger.predict(X_test)))

# %%
# The sentence with this error. Dark fields are probable labels, points are predicted
# labels, and circles are true ones. :doc:`/how_to/save_and_load` saves the tagger, and
# :doc:`/how_to/deploy` runs it elsewhere.
i = 5
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
SequenceDisplay.from_estimator(tagger, X_test[i], y_test[i]).plot(ax=ax)
plt.show()
