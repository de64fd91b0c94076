"""The dual value of a mixture of labelings, computed by `_feasible_joint.pyx`."""

import numpy as np

from sksstruct.solvers.dual_decomposition._feasible_joint import JointPoint
from sksstruct.solvers.dual_decomposition._restart import sizes


def joint_value(state):
    """Return the dual value of a mixture of labelings near the iterate of GDMM.

    It is a lower bound of the optimum. The weights of the model change during the
    computation, and are restored up to rounding errors.
    """
    n, m = state.model.n_variables, state.model.n_pairs
    n_labels, n_outcomes, n_ends = sizes(state)
    # `JointPoint.fill` adds at most one outcome per label at an end of a pair
    n_cells = n_outcomes + n_ends
    point = JointPoint(
        state,
        n_labels,
        n_cells,
        np.zeros(2 * (n + m + 1), dtype=np.intp),
        np.zeros(2 * n_cells, dtype=np.int32),
        np.zeros(n + 2 * (n_labels + n_cells)),
    )
    point.build()
    changes = (
        np.empty(n_cells, dtype=np.intp),
        *np.empty((2, n_cells), dtype=np.int32),
        np.empty(n_cells),
    )
    n_changes = point.list_changes(*changes)
    point.move_weights(1.0)
    square = state.model.square_with(*(each[:n_changes] for each in changes))
    point.move_weights(-1.0)
    return point.loss - state.alpha / 2.0 * square
