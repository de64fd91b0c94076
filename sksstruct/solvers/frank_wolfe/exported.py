"""Dual variables that were exported: read again, each number checked.

`Blocks` of `_blocks.pyx` writes them, and says what they are. Keys become indices in
its loops, counts and capacities sizes of memory.
"""

import numpy as np

from sksstruct.utils.entries import Entries

# Weights of a mixture are none below zero, and sum to one, up to rounding errors.
_ROUNDING = 1e-6
# Labelings that a block has room for at first; the room doubles.
FIRST_CAPACITY = 4
# No block comes to as many labelings, and the bytes of their Gram matrix are still a
# number.
_MOST_CAPACITY = 2**24


def fits(state, model, means):
    """Whether exported duals have this form and labelings of the model."""
    return state.get("means") == means and state.get("signature") == model.signature


def read_mixtures(state, model, means):
    """The mixtures of labelings of a state.

    Parameters
    ----------
    state : dict
        What `Blocks.export` returned.
    model : BoundModel
        The model with its data.
    means : bool
        Whether they are mean parameters, and no labelings.

    Returns
    -------
    counts, keys, values : ndarray
        As in the state. One more key and value follow, so that all have an address.

    Raises
    ------
    ValueError
        If they are not mixtures of labelings of the model.
    """
    if not fits(state, model, means):
        raise ValueError("dual variables of another problem")
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
    """The losses of all blocks, and their mean, of a snapshot."""
    entries = Entries(state, "dual variables")
    return entries.array("losses", (n_blocks,)), entries.real("loss")


def read_grams(state, counts):
    """What a snapshot has of blocks of labelings.

    Parameters
    ----------
    state : dict
        What `Blocks.snapshot` returned.
    counts : ndarray of shape (n_blocks,)
        Numbers of the labelings.

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
