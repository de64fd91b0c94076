"""
=======================
Recurrent scores in JAX
=======================

The scores of a tagger can be computed by any differentiable function. In this example a
recurrent layer reads each sequence in both directions, and `sksstruct.ChainCRF` adds
transitions and the likelihood of whole labelings [1]_.

Each position contains one of four symbols. Its label states whether the symbol also
occurs earlier in the sequence, later, both, or neither. Scores of single positions
cannot predict this label.

.. [1] Z. Huang, W. Xu and K. Yu, "Bidirectional LSTM-CRF models for sequence tagging",
   arXiv:1508.01991, 2015.
"""

# %%
# Generate the sequences.
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sksstruct import ChainCRF
from sksstruct.models import ELUScore, JAXScore

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None
    print("JAX is missing, python -m pip install sksstruct[jax]: no recurrent layer")

NAMES = np.array([["once", "later"], ["earlier", "both"]])


def sequences(n, seed):
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        symbols = rng.integers(4, size=rng.integers(4, 12))
        before = [int(s in symbols[:t]) for t, s in enumerate(symbols)]
        after = [int(s in symbols[t + 1 :]) for t, s in enumerate(symbols)]
        X.append(np.eye(4)[symbols])
        y.append(NAMES[before, after])
    return X, y


X_train, y_train = sequences(150, 0)
X_test, y_test = sequences(200, 1)

# %%
# The parameters of the network are arrays in dicts. `apply` scores the rows of many
# sequences at once. The offsets contain the first row of each sequence, where the state
# of a layer is reset.
N_UNITS = 12


def init(key, n_features, n_labels):
    def layer(key):
        one, two = jax.random.split(key)
        scale = n_features**-0.5
        return {
            "inputs": scale * jax.random.normal(one, (n_features, N_UNITS)),
            "state": 0.9 * jax.random.orthogonal(two, N_UNITS),
        }

    one, two, three = jax.random.split(key, 3)
    scores = jax.random.normal(three, (2 * N_UNITS, n_labels))
    scores *= (2 * N_UNITS) ** -0.5
    return {"forward": layer(one), "backward": layer(two), "scores": scores}


def read(layer, X, begins):
    def step(state, row):
        inputs, begins = row
        state = jnp.where(begins, 0.0, state)
        state = jnp.tanh(inputs + state @ layer["state"])
        return state, state

    return jax.lax.scan(step, jnp.zeros(N_UNITS), (X @ layer["inputs"], begins))[1]


def apply(parameters, X, offsets):
    first = jnp.zeros(len(X), bool).at[offsets].set(True, mode="drop")
    last = jnp.roll(first, -1).at[-1].set(True)
    ahead = read(parameters["forward"], X, first)
    back = read(parameters["backward"], X[::-1], last[::-1])[::-1]
    return jnp.concatenate([ahead, back], axis=1) @ parameters["scores"]


# %%
# Train linear scores, a network of single positions, and the recurrent network.
# Forty passes are enough to see the difference.
warnings.simplefilter("ignore", ConvergenceWarning)
scores = {"linear": None, "two layers": ELUScore(16)}
if jax is not None:
    scores["recurrent"] = JAXScore(init, apply, needs_offsets=True)
accuracies = {}
for name, score in scores.items():
    tagger = ChainCRF(
        1e-3, loss="log", score_function=score, max_iter=40, tol=0.01, random_state=0
    )
    tagger.fit(X_train, y_train)
    accuracies[name] = tagger.score(X_test, y_test)
    print(
        f"{name:10}  objective {tagger.objective_:6.3f}   "
        f"test accuracy {100 * accuracies[name]:.1f} %"
    )

# %%
# Print a test sequence with the predictions of the recurrent tagger.
for symbol, truth, found in zip(
    X_test[0].argmax(axis=1), y_test[0], tagger.predict(X_test[:1])[0], strict=True
):
    print(f"{'abcd'[symbol]}   {truth:8} {found}")
fig, ax = plt.subplots(figsize=(5, 2.5), layout="constrained")
ax.barh(list(accuracies), list(accuracies.values()), color="C0")
ax.set(xlabel="test accuracy", xlim=(0, 1))
plt.show()
