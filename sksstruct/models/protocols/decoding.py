"""The best labelings of all examples of a bound model."""

import numpy as np

from sksstruct.utils.parallel import run_in_chunks


def best_labelings(model, weights, starts, n_jobs=None):
    """Return the best labeling of each example, and its score.

    Parameters
    ----------
    model : BoundModel or SparseChain
        The model, bound for prediction.
    weights : ndarray of shape (n_weights,)
        Weights of the model.
    starts : ndarray of shape (n_examples + 1,)
        First entry of each example's labeling, and the end of the last labeling.
    n_jobs : int, default=None
        Number of threads.

    Returns
    -------
    labelings : ndarray of int32
        The labelings, one after the other.
    scores : ndarray of shape (n_examples,)
        Scores of the labelings.
    """
    # a spare entry, as all labelings may be empty
    labelings = np.empty(starts[-1] + 1, dtype=np.int32)
    scores = np.empty(len(starts) - 1)

    def decode(first, last):
        workspace = model.workspace(weights, training=False)
        model.predict(workspace, first, last, labelings, scores)

    run_in_chunks(decode, len(scores), n_jobs)
    return labelings[:-1], scores
