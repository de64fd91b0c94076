"""Dual variables as exported arrays, and checked imports of them.

`_blocks.pyx` states the dual variables. Every number is checked before use, as compiled
loops use keys as indices, and counts and capacities as sizes of memory.
"""

import numpy as np

from sksstruct.utils.entries import Entries

# Tolerance for weights of a mixture below zero, and for sums different from one.
_ROUNDING = 1e-6
# Initial capacity of a block for labelings; the capacity doubles when needed.
FIRST_CAPACITY = 4
# Upper bound of capacities: more labelings than any block reaches. The size in bytes of
# a Gram matrix with so many rows and columns fits 64 bits.
_MOST_CAPACITY = 2**24


def export(kernel):
    """Return the dual variables of a `BCFWKernel` as flat arrays; see `restore`."""
    means = bool(kernel.use_means)
    # arrays are flat, as few large arrays are pickled and compared faster than many
    # small arrays
    counts = np.empty(kernel.model.n_examples, dtype=np.intp)
    kernel.read_counts(counts)
    lengths = counts if means else counts * kernel.model.sizes
    keys, values = np.empty(lengths.sum(), dtype=np.int32), np.empty(counts.sum())
    kernel.read_mixtures(keys, values)
    # w and Gram matrices are not exported, as they follow from the dual variables and
    # the model
    return {
        "means": means,
        "signature": kernel.model.signature,
        "counts": counts,
        "keys": keys,
        "values": values,
    }


def restore(kernel, state):
    """Start from exported dual variables; recompute weights and losses.

    Raises ValueError if the state is not accepted.
    """
    weights, workspace = kernel.weights, kernel.workspace
    kernel.fill(*read_mixtures(state, kernel.model, kernel.use_means))
    # the average begins with the first iterate of the new run
    kernel.iterate = 0.0
    # at w = 0, the value of a mixture is its loss
    workspace.read(np.zeros_like(weights.w))
    kernel.form_weights()
    workspace.read(weights.w)
    kernel.loss = float(kernel.model.example_weights @ kernel.losses_)


def snapshot(kernel):
    """Return all that later visits read, except the weights; see `resume`.

    A snapshot has losses and Gram matrices, too: recomputed ones would have other
    rounding errors, as Gram entries depend on the order of the labelings.
    """
    state = {
        **export(kernel),
        "losses": kernel.losses_.copy(),
        "loss": kernel.loss,
        "gaps": kernel.gaps_.copy(),
        "gap_total": kernel.gap_total,
    }
    if kernel.use_means:
        return state
    capacities, sizes = np.empty((2, kernel.model.n_examples), dtype=np.intp)
    kernel.read_gram_sizes(capacities, sizes)
    # one entry is spare, so that the array is never empty
    grams = np.zeros(int((sizes**2).sum()) + 1)
    kernel.read_grams(grams)
    return {
        **state,
        "promises": kernel.promises_.copy(),
        "capacities": capacities,
        "gram_sizes": sizes,
        "grams": grams,
    }


def resume(kernel, state):
    """Restore the dual variables of a snapshot exactly; the weights do not change."""
    entries = Entries(state, "dual variables")
    gaps = entries.array("gaps", kernel.gaps_.shape, float, 0.0)
    gap_total = entries.real("gap_total", 0.0, infinite=True)
    mixtures = read_mixtures(state, kernel.model, kernel.use_means)
    losses, loss = read_sums(state, kernel.model.n_examples)
    if not kernel.use_means:
        promises, *grams = read_grams(state, mixtures[0])
    kernel.fill(*mixtures)
    kernel.losses_[:], kernel.loss = losses, loss
    if not kernel.use_means:
        kernel.promises_[:] = promises
        kernel.fill_grams(*grams)
    kernel.set_gaps(gaps)
    # `set_gaps` has overwritten the total with the sum of the estimates
    kernel.gap_total = gap_total


def fits(state, model, means):
    """Whether `state` is of the kind `means`, and has the signature of the model."""
    return state.get("means") == means and state.get("signature") == model.signature


def read_mixtures(state, model, means):
    """Return the mean parameters, or labelings and weights, of a state; check them.

    Parameters
    ----------
    state : dict
        Result of `export`.
    model : BoundModel
        The model with its data.
    means : bool
        Whether the state has mean parameters instead of labelings.

    Returns
    -------
    counts, keys, values : ndarray
        As in the state, with one spare key and value, so that no array is empty.

    Raises
    ------
    ValueError
        If the state does not have mixtures of labelings of the model.
    """
    if not fits(state, model, means):
        raise ValueError(
            "dual_state must be of the same examples, labels and loss: pass None, "
            "or set warm_start=False"
        )
    entries = Entries(state, "dual variables")
    most = len(entries.get("values", np.ndarray, "an array"))
    counts = entries.array("counts", (model.n_examples,), np.intp, int(not means), most)
    lengths = counts if means else counts * model.sizes
    keys = entries.array("keys", (int(lengths.sum()),), np.int32)
    keys = np.append(keys, np.int32(0))
    values = entries.array(
        "values",
        (int(counts.sum()),),
        low=-_ROUNDING,
        high=(model.max_keys if means else 1.0) + _ROUNDING,
    )
    if means:
        model.check_keys(entries, counts, keys)
    else:
        model.check_labelings(entries, counts, keys)
        sums = np.add.reduceat(values, np.cumsum(counts) - counts)
        one = 1.0 - _ROUNDING, 1.0 + _ROUNDING
        entries.checked("sum of the values of example ", sums, (None,), float, *one)
    return counts, keys, np.append(values, 0.0)


def read_sums(state, n_blocks):
    """Return the losses of all blocks of a snapshot, and their mean."""
    entries = Entries(state, "dual variables")
    return entries.array("losses", (n_blocks,)), entries.real("loss")


def read_grams(state, counts):
    """Return the parts of a snapshot that only blocks of labelings have.

    Parameters
    ----------
    state : dict
        Result of `snapshot`.
    counts : ndarray of shape (n_blocks,)
        Number of labelings of each block.

    Returns
    -------
    promises, capacities, sizes, grams : ndarray
        As in the state.
    """
    entries, shape = Entries(state, "dual variables"), counts.shape
    promises = entries.array("promises", shape, infinite=True)
    capacities = entries.array("capacities", shape, np.intp, counts, _MOST_CAPACITY)
    if (capacities < FIRST_CAPACITY).any() or (capacities & (capacities - 1)).any():
        expected = f"powers of two, {FIRST_CAPACITY} or more"
        raise entries.wrong("capacities", capacities, expected)
    sizes = entries.array("gram_sizes", shape, np.intp, 0, counts)
    grams = entries.array("grams", (int((sizes**2).sum()) + 1,))
    return promises, capacities, sizes, grams
