"""Generator of stick figures: synthetic images for pose estimation."""

import numpy as np
from numpy.random import RandomState
from scipy.ndimage import gaussian_filter
from sklearn.utils import Bunch, check_random_state

# Bones 2 to 5: left and right upper arm, then left and right forearm.
_ARMS = slice(2, 6)
_JOINTS = (
    "head", "neck", "hip", "left elbow", "right elbow", "left hand", "right hand",
    "left knee", "right knee", "left foot", "right foot",
)  # fmt: skip
# A bone is (parent, child, row, column) with the mean displacement of the child from
# the parent, in units of the size of the figure.
_BONES = (
    (1, 0, -0.55, 0.0), (1, 2, 1.0, 0.0), (1, 3, 0.4, -0.45), (1, 4, 0.4, 0.45),
    (3, 5, 0.45, -0.2), (4, 6, 0.45, 0.2), (2, 7, 0.6, -0.3), (2, 8, 0.6, 0.3),
    (7, 9, 0.65, -0.05), (8, 10, 0.65, 0.05),
)  # fmt: skip


def make_stick_figures(
    n_images: int = 100,
    *,
    shape: tuple[int, int] = (40, 32),
    size: float = 9.0,
    wobble: float = 0.22,
    noise: float = 0.2,
    clutter: int = 12,
    raised: float = 0.0,
    random_state: int | RandomState | None = None,
) -> Bunch:
    """Drawings of stick figures among stray strokes, with the positions of joints.

    The neck is near the middle of the upper half of the image. Every other joint is at
    the mean displacement of its bone from its parent, plus Gaussian noise. With
    `raised`, each arm independently hangs down or is raised: the displacements along
    the bones of arms then have two means. The bones and a round head are drawn, and
    stray strokes with random positions, lengths and directions; then the image is
    slightly blurred, and pixel noise is added.

    Parameters
    ----------
    n_images : int, default=100
        Number of images.
    shape : tuple of two int, default=(40, 32)
        Height and width.
    size : float, default=9.0
        Mean length of the back in pixels; the standard deviation is a tenth of it.
    wobble : float, default=0.22
        Standard deviation of the positions of joints, in units of the size.
    noise : float, default=0.2
        Standard deviation of the pixel noise; strokes have brightness 1.
    clutter : int, default=12
        Number of stray strokes in each image.
    raised : float, default=0.0
        Probability that an arm is raised.
    random_state : int, RandomState instance or None, default=None
        Seed or source of random numbers.

    Returns
    -------
    data : `sklearn.utils.Bunch`
        ``images``: array of shape (n_images, height, width); ``joints``: array of shape
        (n_images, 11, 2), row and column; ``bones``: array of shape (10, 2), the pairs
        of joints; ``names``: names of the joints.

    Examples
    --------
    >>> from sksstruct.datasets import make_stick_figures
    >>> data = make_stick_figures(2, random_state=0)
    >>> data.images.shape, data.joints.shape
    ((2, 40, 32), (2, 11, 2))
    """
    height, width = shape
    if n_images < 1 or height < 8 or width < 8 or not size > 0:
        raise ValueError(
            "n_images must be at least 1, shape at least (8, 8) and size above 0, got "
            f"{n_images!r}, {shape!r} and {size!r}"
        )
    if not 0 <= raised <= 1:
        raise ValueError(f"raised must be between 0 and 1, got {raised!r}")
    rng = check_random_state(random_state)
    images = np.empty((n_images, height, width))
    joints = np.empty((n_images, len(_JOINTS), 2), dtype=np.intp)
    for image, places in zip(images, joints, strict=True):
        scale = size * (1.0 + 0.1 * rng.normal())
        at = np.empty(places.shape)
        at[1] = (0.3 * height, 0.5 * width) + 0.06 * min(shape) * rng.normal(size=2)
        for parent, child, row, column in _posture(raised, rng):
            mean = at[parent] + scale * np.array([row, column])
            at[child] = mean + scale * wobble * rng.normal(size=2)
        np.clip(np.rint(at), 0, (height - 1, width - 1), out=at)
        places[:] = at
        image[:] = 0.0
        for parent, child, _, _ in _BONES:
            _stroke(image, at[parent], at[child])
        rows, columns = np.indices(shape)
        distance = np.hypot(rows - at[0, 0], columns - at[0, 1])
        image[distance < 0.28 * scale] = 1.0
        for _ in range(clutter):
            start = rng.uniform(size=2) * shape
            turn, length = rng.uniform(0, np.pi), size * rng.uniform(0.3, 0.7)
            _stroke(
                image, start, start + length * np.array([np.cos(turn), np.sin(turn)])
            )
        image[:] = gaussian_filter(image, 0.6) + noise * rng.normal(size=shape)
    return Bunch(
        images=images,
        joints=joints,
        bones=np.array([bone[:2] for bone in _BONES]),
        names=_JOINTS,
    )


def _posture(raised, rng):
    """Return the bones of a figure; those of raised arms have negated rows."""
    if not raised:
        return _BONES
    # left and right arm, repeated for the upper and the lower bones
    up = np.tile(rng.uniform(size=2) < raised, 2)
    arms = [
        (parent, child, -row if turned else row, column)
        for (parent, child, row, column), turned in zip(_BONES[_ARMS], up, strict=True)
    ]
    return (*_BONES[: _ARMS.start], *arms, *_BONES[_ARMS.stop :])


def _stroke(image, start, end):
    """Draw a line of brightness 1 into an image, from start to end."""
    n = int(np.abs(end - start).max()) + 2
    points = np.rint(start + np.linspace(0, 1, 2 * n)[:, None] * (end - start))
    inside = ((points >= 0) & (points < image.shape)).all(axis=1)
    image[tuple(points[inside].astype(int).T)] = 1.0
