"""Lengths that segments may have, and their features."""

import warnings
from numbers import Integral

import numpy as np
from scipy import sparse

from sksstruct.utils._files import cut

# Stands for the largest length of segments of a label without a limit.
NO_LIMIT = np.iinfo(np.int32).max


class SegmentLengths:
    """Methods of `SegmentModel` for the lengths that segments may have."""

    def _limits(self, name, default):
        """Return each label's limit of lengths, `min_length` or `max_length`.

        The outside, if there is one, comes first and has the limit 1.
        """
        given, labels = getattr(self, name), self.classes_.tolist()
        if isinstance(given, dict):
            unknown = [label for label in given if label not in labels]
            # as for class_weight, training data may lack some labels of the dict
            if unknown and not set(labels) <= set(given):
                raise ValueError(
                    f"{name} names {unknown[0]!r:.80}, which is not a label of y: "
                    f"these are {cut(', '.join(map(repr, labels[:20])))}"
                )
            for label, length in given.items():
                if length is None and name == "max_length":
                    continue
                if not isinstance(length, Integral) or length < 1:
                    raise ValueError(
                        f"{name}[{label!r:.80}] must be an int of at least 1, got "
                        f"{length!r:.80}"
                    )
            default = [given.get(k, n) for k, n in zip(labels, default, strict=True)]
        elif given != "auto":
            default = [given] * len(labels)
        default = [NO_LIMIT if length is None else length for length in default]
        return np.array([1] * self.outside_ + default, dtype=np.intp)

    def _warn_of_cuts(self, y, stacklevel):
        """Warn about segments of the training data that were cut."""
        if self.max_length in ("auto", None):
            return
        # segments of sequences with unknown labels are not cut
        segments = y.take(np.flatnonzero(~y.partial)).segments(self.form_)
        lengths = segments.stops - segments.starts
        numbers = self._numbers_of(segments, "y")
        n_cut = np.count_nonzero(lengths > self.longest_[numbers])
        if n_cut:
            warnings.warn(
                f"{n_cut} segments of y are longer than max_length="
                f"{self.max_length}, the longest {lengths.max()}; they were cut into "
                "pieces",
                UserWarning,
                stacklevel=stacklevel,
            )

    def _allowed(self, size):
        """Return flags (n_lengths, n_labels) of the lengths that labels may have.

        Lengths are from 1 up to the given size of a sequence, or the largest length.
        """
        lengths = np.arange(1, min(self.longest_.max(), size) + 1)[:, None]
        return (lengths >= self.shortest_) & (lengths <= self.longest_)

    def _at_boundary(self, size):
        """Return the result of `_allowed` for the first and the last segment.

        Returns None if `_allowed` holds for these segments, too.
        """
        if self.boundary_lengths == "same":
            return None
        lengths = np.arange(1, min(self.longest_.max(), size) + 1)[:, None]
        # no lower limit: a boundary segment may be a piece of a longer segment
        return lengths <= self.longest_

    @property
    def _n_single_lengths(self):
        """Number of lengths, from 1 on, of which each has its own weight."""
        if self.length_features == "auto":
            return 8 if self.outside_ else 64
        return self.length_features

    @property
    def _is_unlimited(self):
        """Whether some label has no limit of lengths."""
        return bool((self.longest_ == NO_LIMIT).any())

    def _reach(self, sizes, spans):
        """Return the largest length that has its own row of scores in each sequence.

        Without a limit, scores of longer segments are the score of this length plus
        scores of further positions. No longer length may be allowed or forbidden
        individually, or be the length of a span, which has its own features.
        """
        if not self._is_unlimited:
            return np.minimum(sizes, self.longest_.max())
        limits = self.longest_[self.longest_ < NO_LIMIT]
        most = max(self._n_single_lengths, self.shortest_.max(), limits.max(initial=1))
        return np.minimum(sizes, most if spans is None else np.maximum(most, spans[-1]))

    def _rows_of_lengths(self, counts, reach):
        """Return rows of features of all lengths, with a copy for boundaries.

        Returns the rows of all examples, and the number of rows of each example.
        """
        rows = self._length_rows(counts, reach)
        if self.boundary_lengths == "same":
            return rows, counts
        nothing = sparse.csr_array(rows.shape)
        parts = [rows, nothing]
        if self.boundary_lengths == "own":
            parts = [
                sparse.hstack([rows, nothing]),
                sparse.hstack([nothing, rows]),
            ]
        example = np.repeat(np.arange(len(counts)), counts)
        # in each example, rows of boundaries come last
        order = np.argsort(np.concatenate([example, example]), kind="stable")
        return sparse.vstack(parts, format="csr")[order], 2 * counts

    def _length_rows(self, counts, reach):
        """Return features of lengths, counts[i] rows for example i.

        The feature of the range that contains a length is 1. Without a limit of
        lengths, the last range has all longer lengths, and the last feature is the
        number of further positions. A row beyond the reach is for one further position.
        """
        limit, n_rows = self._n_single_lengths, int(counts.sum())
        before = np.repeat(np.cumsum(counts) - counts, counts)
        lengths = np.arange(1, n_rows + 1) - before
        if self._is_unlimited:
            further = lengths > np.repeat(reach, counts)
            places = np.column_stack(
                [np.minimum(lengths, limit) - 1, lengths * 0 + limit]
            )
            over = np.where(further, 1, np.maximum(lengths - limit, 0))
            values = np.column_stack([1.0 - further, over])
            starts = np.arange(0, 2 * n_rows + 1, 2)
            rows = values.ravel(), places.ravel(), starts
            rows = sparse.csr_array(rows, shape=(n_rows, limit + 1))
            rows.eliminate_zeros()
            return rows

        def place(lengths):
            over = np.ceil(np.log2(np.maximum(lengths / limit, 1.0)))
            return np.where(lengths <= limit, lengths, limit + over).astype(np.int32)

        shape = n_rows, int(place(self.longest_.max()))
        places = place(lengths) - 1
        return sparse.csr_array((np.ones(n_rows), places, np.arange(n_rows + 1)), shape)
