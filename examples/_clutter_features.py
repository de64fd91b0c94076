"""Candidate boxes in images of clutter, and their features."""

import numpy as np

SIDES = (9, 12, 15)


def boxes_of(size):
    """All candidate boxes of a square image."""
    return np.array(
        [
            (top, left, top + h, left + w)
            for h in SIDES
            for w in SIDES
            for top in range(0, size - h + 1, 2)
            for left in range(0, size - w + 1, 2)
        ]
    )


def mean_brightness(integral, top, left, bottom, right):
    area = np.maximum((bottom - top) * (right - left), 1)
    inside = integral[bottom, right] - integral[top, right]
    return (inside - integral[bottom, left] + integral[top, left]) / area


def describe(image, boxes):
    """64 pixels of each box, and the brightness of four strips around it."""
    size = len(image)
    integral = np.pad(image, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    top, left, bottom, right = boxes.T
    rows = np.linspace(0, 1, 9)[:, None] * (bottom - top) + top
    columns = np.linspace(0, 1, 9)[:, None] * (right - left) + left
    rows, columns = np.rint(rows).astype(int), np.rint(columns).astype(int)
    cells = [
        mean_brightness(integral, rows[i], columns[j], rows[i + 1], columns[j + 1])
        for i in range(8)
        for j in range(8)
    ]
    above, below = np.maximum(top - 2, 0), np.minimum(bottom + 2, size)
    before, after = np.maximum(left - 2, 0), np.minimum(right + 2, size)
    cells += [
        mean_brightness(integral, above, left, top, right),
        mean_brightness(integral, bottom, left, below, right),
        mean_brightness(integral, top, before, bottom, left),
        mean_brightness(integral, top, right, bottom, after),
    ]
    return np.stack(cells, axis=1)


def overlap(boxes, box):
    """Intersection over union of boxes with one."""
    sides = np.minimum(boxes[:, 2:], box[2:]) - np.maximum(boxes[:, :2], box[:2])
    both = np.maximum(sides, 0).prod(axis=1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return both / (areas + (box[2:] - box[:2]).prod() - both)
