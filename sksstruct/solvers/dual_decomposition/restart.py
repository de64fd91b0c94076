"""The state of GDMM as arrays, from which another run can start.

The state consists of distributions and multipliers. The weights are recomputed from the
distributions (10), with the features, the example weights and the alpha of the new run.
`_state.pyx` states the notation. Multipliers are stored as rho u, in units of scores.
"""

import numpy as np

from sksstruct.solvers.dual_decomposition._restart import (
    clique_sizes,
    read_cliques,
    read_labels,
    read_outcomes,
    sizes,
    write_cliques,
    write_state,
)
from sksstruct.utils.entries import Entries

# Tolerance for probabilities below zero and for sums of probabilities different from
# one.
ROUNDING = 1e-6


def signature(model):
    """Return a value that two models share if their states are compatible."""
    cliques = model.cliques
    return (
        model.n_labels,
        model.first_variable.tobytes(),
        model.first_pair.tobytes(),
        model.pairs.tobytes(),
        cliques and cliques.signature(),
    )


def export_state(state):
    """Return distributions and multipliers as a dict of arrays.

    ``counts`` and ``outcome_counts`` are the numbers of active labels of
    each variable and of active outcomes of each pair. ``labels`` and ``q`` list the
    labels and their probabilities, one variable after the other. ``places`` (2, n) has,
    for the two ends of each outcome, the place of its label in the list of the
    variable; ``outcome_q`` has the probabilities of the outcomes. ``multipliers`` has
    an entry for every label at both ends of every pair.
    """
    n, m, s = sizes(state)
    arrays = {
        "counts": np.empty(state.model.n_variables, dtype=np.int32),
        "labels": np.empty(n, dtype=np.int32),
        "q": np.empty(n),
        "outcome_counts": np.empty(state.model.n_pairs, dtype=np.int32),
        "places": np.empty((2, m), dtype=np.int32),
        "outcome_q": np.empty(m),
        "multipliers": np.empty(s),
    }
    read_labels(state, arrays["counts"], arrays["labels"], arrays["q"])
    read_outcomes(
        state,
        arrays["outcome_counts"],
        *arrays["places"],
        arrays["outcome_q"],
        arrays["multipliers"],
    )
    return arrays


def check_state(model, state):
    """Raise an error if a state is damaged or belongs to another model.

    Parameters
    ----------
    model : FactorModel
        The model that the state is for.
    state : dict
        The entry ``factors`` of the result of `GDMMRun.export`: ``arrays`` from
        `export_state`, and for models with cliques ``cliques`` from `export_cliques`.
    """
    owner = Entries(state, "dual variables")
    if state.get("signature") != signature(model):
        raise ValueError(
            "dual_state must be of the same examples, labels and loss: pass None, "
            "or set warm_start=False"
        )
    owner.real("rho", np.finfo(float).tiny)
    entries, pairs = owner.part("arrays"), np.asarray(model.pairs)
    counts = entries.array("counts", (model.n_variables,), np.int32, 1, model.n_labels)
    shape = (int(counts.sum()),)
    labels = entries.array("labels", shape, np.int32, 0, model.n_labels - 1)
    variable = np.repeat(np.arange(model.n_variables), counts)
    if len(np.unique(variable * np.intp(model.n_labels) + labels)) < len(labels):
        raise entries.wrong("labels", labels, "labels that differ, of each variable")
    check_sums(entries, "q", counts, shape)
    # the places of an outcome are below the numbers of labels of the pair's variables
    of_pairs = entries.array("outcome_counts", (model.n_pairs,), np.int32, 1)
    shape = (int(of_pairs.sum(dtype=np.intp)),)
    ends = counts[pairs].T
    # `outcome_q` is checked before `np.repeat` allocates memory: its length bounds the
    # number of outcomes
    check_sums(entries, "outcome_q", of_pairs, shape)
    entries.array(
        "places", (2, *shape), np.int32, 0, np.repeat(ends, of_pairs, axis=1) - 1
    )
    entries.array("multipliers", (int(ends.sum(dtype=np.intp)),))
    if model.cliques is not None:
        check_cliques(model.cliques, owner.part("cliques"))


def check_cliques(cliques, entries):
    """Raise an error if the state of cliques is damaged; see `check_state`."""
    counts = entries.array("counts", (cliques.n_cliques,), np.intp, 1, cliques.outcomes)
    shape = (int(counts.sum()),)
    check_sums(entries, "q", counts, shape)
    entries.array("entries", shape, np.intp, 0, np.repeat(cliques.outcomes, counts) - 1)
    size = int(cliques.orders.sum()) * cliques.n_labels
    entries.array("multipliers", (size,))


def check_sums(entries, name, counts, shape):
    """Raise an error if an entry does not hold distributions of `counts` outcomes."""
    q = entries.array(name, shape, float, -ROUNDING, 1.0 + ROUNDING)
    if len(counts):
        sums = np.add.reduceat(q, np.cumsum(counts, dtype=np.intp) - counts)
        entries.checked(
            f"sums of {name}", sums, (None,), float, 1.0 - ROUNDING, 1.0 + ROUNDING
        )


def restore_state(state, arrays):
    """Copy the distributions and multipliers of another state to a new one.

    Parameters
    ----------
    state : GDMMState
        A new state, with q = 1 for all observed outcomes. The observed outcomes of the
        other run may be different.
    arrays : dict
        Result of `export_state` for a model with the same `signature`.
    """
    first = np.concatenate([[0], np.cumsum(arrays["counts"], dtype=np.intp)])
    write_state(
        state,
        arrays["counts"],
        arrays["labels"],
        first,
        arrays["q"],
        arrays["outcome_counts"],
        *arrays["places"],
        arrays["outcome_q"],
        arrays["multipliers"],
    )


# ---- cliques ----


def export_cliques(state):
    """Return the distributions and multipliers of cliques as arrays, in a dict."""
    counts = np.empty(state.cliques.n_cliques, dtype=np.intp)
    clique_sizes(state, counts)
    entries, q = np.empty(counts.sum(), dtype=np.intp), np.empty(counts.sum())
    read_cliques(state, entries, q)
    return {
        "counts": counts,
        "entries": entries,
        "q": q,
        "multipliers": state.multipliers(),
    }


def restore_cliques(state, arrays):
    """Copy the distributions and multipliers of cliques to another state.

    Parameters
    ----------
    state : CliqueGDMMState
        A state whose variables and pairs `restore_state` has set.
    arrays : dict
        Result of `export_cliques` for a model with the same `signature`.
    """
    write_cliques(
        state,
        state.cliques.first_clique,
        arrays["counts"],
        arrays["entries"],
        arrays["q"],
    )
    state.set_multipliers(arrays["multipliers"])
