"""Concave quadratic maximization over the simplex, exact, by an active-set method."""

import numpy as np

# Relative size of rounding errors in sums of a few products.
_EPS = 1e-14
# Largest number of pairwise steps, which replace moves to the maximum of a face if
# rounding errors keep such a move from raising the value.
_PAIRS = 10


def maximize_on_simplex(gram, linear, start, rounds=10):
    """Maximize ``<linear, x> - x' gram x / 2`` over the probability simplex.

    Each round moves to the maximum on the face of the positive entries; entries that
    would become negative are dropped from the face first. Then the entry of steepest
    ascent is added to the face, as in Wolfe's minimum norm point algorithm. Any point
    of the simplex gives a lower bound of the maximum.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        Positive semidefinite.
    linear : ndarray of shape (n,)
        Linear term.
    start : ndarray of shape (n,)
        Point of the simplex to start from.
    rounds : int, default=10
        Largest number of rounds, divided by n.

    Returns
    -------
    x : ndarray of shape (n,)
        The maximizer, up to rounding errors.
    """
    n = len(linear)
    x = np.array(start, dtype=np.float64)
    face = x > 0
    value, pairs = -np.inf, 0
    for _ in range(rounds * n + 1):
        x, face = _climb(gram, linear, x, face)
        product = gram @ x
        slope = linear - product
        best = int(np.argmax(slope))
        reached = x @ (linear + slope) / 2
        noise = _EPS * (np.abs(linear).max() + np.abs(product).max())
        if slope[best] - x @ slope <= noise:
            break
        if face[best] or reached <= value:
            pair_x = _pair_step(gram, slope, x, best)
            pairs += 1
            if pair_x is None or pairs > _PAIRS:
                break
            x, face, value = pair_x, pair_x > 0, -np.inf
            continue
        value = reached
        face[best] = True
    return x


def _pair_step(gram, slope, x, best):
    """Return x after the best step from the worst positive entry to the best entry.

    Returns None if there is no gain.
    """
    worst = int(np.argmin(np.where(x > 0, slope, np.inf)))
    bend = gram[best, best] - 2 * gram[best, worst] + gram[worst, worst]
    gain = slope[best] - slope[worst]
    if worst == best or not gain > 0:
        return None
    step = min(x[worst], gain / bend) if bend > 0 else x[worst]
    x = x.copy()
    x[worst] -= step
    x[best] += step
    return x


def _climb(gram, linear, x, face):
    """Move x to the maximum on a face; return x and its face.

    Entries that would become negative on the way are set to zero, and leave the face.
    """
    for _ in range(3 * len(x) + 10):
        index = np.flatnonzero(face)
        m = len(index)
        part = gram[np.ix_(index, index)]
        product = part @ x[index]
        slope = linear[index] - product
        # rounding errors of the sums scale with their largest terms
        noise = _EPS * (np.abs(linear[index]).max() + np.abs(part).max())
        slope = slope - slope.mean()
        # curvature along directions that do not change the sum of the entries of x
        centered = part - part.mean(axis=0)
        centered = centered - centered.mean(axis=1)[:, None]
        bends, vectors = np.linalg.eigh((centered + centered.T) / 2)
        components = vectors.T @ slope
        curved = bends > 1e-15 * m * np.abs(part).max()
        ascent = vectors[:, ~curved] @ components[~curved]
        # along a direction without curvature, the ascent ends at the edge of the face
        flat = np.abs(ascent).max() > noise
        if flat:
            direction = ascent
        else:
            direction = vectors[:, curved] @ (components[curved] / bends[curved])
        direction = direction - direction.mean()
        gain = slope @ direction
        if not gain > 0.0:
            return x, face
        falling = direction < 0.0
        limits = np.full(m, np.inf)
        limits[falling] = -x[index][falling] / direction[falling]
        k = int(np.argmin(limits))
        x = x.copy()
        if limits[k] >= 1.0 and not flat:
            x[index] += direction
            return x, face
        if limits[k] == np.inf:
            return x, face
        x[index] = np.maximum(x[index] + limits[k] * direction, 0.0)
        x[index[k]] = 0.0
        x /= x.sum()
        face = x > 0
    return x, face
