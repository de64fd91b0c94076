"""Concave quadratic maximisation over the simplex, exactly, by an active set."""

import numpy as np


def maximise_on_simplex(gram, linear, start, rounds=10):
    """Maximise ``<linear, x> - x' gram x / 2`` over the probability simplex.

    Each round goes to the maximum on the face of the positive entries, dropping the
    entry that turns negative first until none does, and then lets in the entry of
    steepest ascent, as Wolfe's minimum norm point does. Every step is an ascent, so
    that any x returned gives a lower bound of the maximum.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Positive semidefinite.
    linear : ndarray of shape (n,)
        Linear term.
    start : ndarray of shape (n,)
        Point of the simplex to start from.
    rounds : int, default=10
        Rounds for each of the n entries.

    Returns
    -------
    x : ndarray of shape (n,)
        The maximiser, to rounding errors.
    """
    n = len(linear)
    x = np.array(start, dtype=np.float64)
    scale = np.abs(linear).max() + np.abs(gram).max() + np.finfo(float).tiny
    face = x > 0
    value = -np.inf
    for _ in range(rounds * n + 1):
        x, face = _climb(gram, linear, x, face)
        slope = linear - gram @ x
        level = x @ slope
        best = int(np.argmax(slope))
        reached = x @ (linear + slope) / 2
        if slope[best] - level <= 1e-15 * scale or face[best] or reached <= value:
            break
        value = reached
        face[best] = True
    return x


def _climb(gram, linear, x, face):
    """From x to the maximum on a face, or on the part of it that is reached."""
    for _ in range(3 * len(x) + 10):
        index = np.flatnonzero(face)
        m = len(index)
        system = np.zeros((m + 1, m + 1))
        system[:m, :m] = gram[np.ix_(index, index)]
        system[:m, m] = system[m, :m] = 1.0
        # the direction that keeps the sum; least squares where planes depend on others
        slope = linear[index] - system[:m, :m] @ x[index]
        right = np.append(slope - slope.mean(), 0.0)
        solution = np.linalg.lstsq(system, right, rcond=1e-13)[0]
        direction = solution[:m]
        # What is left over is a direction without curvature that ascends for ever, up
        # to the edge of the face.
        rest = (right - system @ solution)[:m]
        flat = np.abs(rest).max() > 1e-10 * np.abs(right).max()
        if flat:
            direction = rest
        direction = direction - direction.mean()
        gain = slope @ direction
        if not gain > 0.0:
            return x, face
        bend = direction @ system[:m, :m] @ direction
        step = gain / bend if bend > 1e-14 * gain else np.inf
        falling = direction < 0.0
        limits = np.full(m, np.inf)
        limits[falling] = -x[index][falling] / direction[falling]
        k = int(np.argmin(limits))
        x = x.copy()
        if limits[k] >= step:
            if step == np.inf:  # of rounding errors only
                return x, face
            x[index] += step * direction
            if flat:  # the other directions are still to go
                continue
            return x, face
        x[index] = np.maximum(x[index] + limits[k] * direction, 0.0)
        x[index[k]] = 0.0
        x /= x.sum()
        face = x > 0
    return x, face
