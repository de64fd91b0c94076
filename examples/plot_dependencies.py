"""
==========================
Dependency trees: a parser
==========================

This example parses sentences of a small generated grammar. In a dependency tree, every
word has a head, which is another word or the root. The score of a tree is the sum of
the scores of its arcs, and the weights of the arcs' features are learned from
sentences with trees.

This is a structure for learning and research, not a parser for production. A parser for
text also needs a tagger, labels of arcs, and features that look at more than one arc.
"""

# %%
# Generate sentences as lists of (word, tag) pairs, and trees as lists of heads, where 0
# is the root. A phrase at the end, such as "on the hill", belongs to some verbs and not
# to others: to "put", but not to "read". After "left", it belongs to the verb in half
# of the sentences, and nothing in the sentence says when.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline

from sksstruct import SSVMClassifier
from sksstruct.feature_extraction import ArcVectorizer
from sksstruct.metrics import token_accuracy_score

NOUNS = "book letter girl man key picture hill table box house".split()
ADJECTIVES = "old small red good".split()
# How often the phrase at the end belongs to the verb.
VERBS = {"put": 1.0, "placed": 1.0, "read": 0.0, "liked": 0.0, "left": 0.5}


def sentence(rng):
    tokens, heads = [], []

    def noun_phrase():
        n_adjectives = int(rng.integers(0, 3))
        noun = len(tokens) + n_adjectives + 2
        tokens.append((str(rng.choice(["the", "a"])), "DT"))
        tokens.extend((str(rng.choice(ADJECTIVES)), "JJ") for _ in range(n_adjectives))
        tokens.append((str(rng.choice(NOUNS)), "NN"))
        # the head of the noun is set where its place is known
        heads.extend([noun] * (n_adjectives + 1) + [0])
        return noun

    subject = noun_phrase()
    verb = subject + 1
    name = str(rng.choice(list(VERBS)))
    tokens.append((name, "VBD"))
    heads.append(0)
    thing = noun_phrase()
    heads[subject - 1] = heads[thing - 1] = verb
    if rng.random() < 0.7:
        preposition = thing + 1
        tokens.append((str(rng.choice(["on", "in", "by"])), "IN"))
        heads.append(verb if rng.random() < VERBS[name] else thing)
        heads[noun_phrase() - 1] = preposition
    return tokens, heads


rng = np.random.default_rng(0)
X_train, y_train = zip(*(sentence(rng) for _ in range(150)), strict=True)
X_test, y_test = zip(*(sentence(rng) for _ in range(150)), strict=True)
print(" ".join(word for word, _ in X_train[0]), y_train[0])

# %%
# `ArcVectorizer` makes the features of all arcs: combinations of words and tags, with
# the direction and the distance. Eisner's algorithm finds the best projective tree, in
# which arcs do not cross. The share of words with the right head is the unlabeled
# attachment score. The baseline is the same model with tags instead of words: it cannot
# tell the verbs from each other.


def only_tags(X):
    return [[(tag, tag) for _, tag in tokens] for tokens in X]


for name, loss, form in (
    ("tags", "hinge", only_tags),
    ("words and tags", "hinge", list),
    ("words and tags", "log", list),
):
    classifier = SSVMClassifier("dependencies", loss=loss, alpha=0.01, random_state=0)
    parser = make_pipeline(ArcVectorizer(), classifier)
    parser.fit(form(X_train), y_train)
    found = parser.predict(form(X_test))
    share = 100 * token_accuracy_score(y_test, found)
    print(f"{name:14s} loss={loss:5s} right heads: {share:.1f} %")

# %%
# With the likelihood, `predict_marginals` returns the exact probability of each arc,
# summed over all trees.
vectorizer = ArcVectorizer()
arcs = vectorizer.fit_transform(X_train, y_train)
classifier = SSVMClassifier("dependencies", loss="log", alpha=0.01, random_state=0)
classifier.fit(arcs, y_train)

frame = "the|DT man|NN {}|VBD the|DT old|JJ letter|NN on|IN the|DT table|NN"
verbs = ("put", "read", "left")
shown = [[tuple(token.split("|")) for token in frame.format(v).split()] for v in verbs]
rows = vectorizer.transform(shown)
trees, marginals = classifier.predict(rows), classifier.predict_marginals(rows)
for verb, probability in zip(verbs, marginals, strict=True):
    # arcs from "put", the third word, and from "letter", the sixth, to "on"
    print(f"{verb:5s} on: {probability[3, 6]:.2f}   letter on: {probability[6, 6]:.2f}")


# %%
# Plot the arcs of the three sentences. Lines are the arcs of the best tree. Dashed
# lines are other arcs whose probability is above 0.2.
def draw(ax, tokens, heads, probability):
    """Words on a line, and arcs above them."""
    n = len(tokens)
    for head in range(n + 1):
        for modifier in range(1, n + 1):
            best = heads[modifier - 1] == head
            if not best and probability[head, modifier - 1] < 0.2:
                continue
            width = head - modifier
            angle = np.linspace(0, np.pi, 50)
            x = modifier + width * (1 - np.cos(angle)) / 2
            y = (0.5 + 0.5 * abs(width)) * np.sin(angle)
            if head == 0:
                # the root is above its word
                x, y = [modifier, modifier], [0, 3.6]
            style, color = ("-", "C0") if best else ("--", "C1")
            ax.plot(x, y, style, color=color, linewidth=1.3)
            ax.plot(modifier, 0.08, "v", color=color, markersize=4)
    for k, (word, tag) in enumerate(tokens, start=1):
        ax.text(k, -0.25, word, ha="center", va="top")
        ax.text(k, -0.95, tag, ha="center", va="top", fontsize="small", color="gray")
    ax.set(xlim=(0.5, n + 0.5), ylim=(-1.6, 3.7))
    ax.set_axis_off()


fig, axes = plt.subplots(3, 1, figsize=(6.6, 7.2), layout="constrained")
for ax, *parsed in zip(axes, shown, trees, marginals, strict=True):
    draw(ax, *parsed)
plt.show()
