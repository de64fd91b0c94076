"""Factors of three and more variables, for training by dual decomposition.

All cliques of a kind score their outcomes by one table of weights, with an entry for
each outcome. The features of a clique are indicators of its outcomes, times a scale
that all cliques of an example share. Outcome (a, b, c) is the entry (a K + b) K + c.
"""

import numpy as np

from libc.math cimport INFINITY


cdef class Cliques:
    """Cliques of all examples, and the weights of their tables.

    Parameters
    ----------
    kinds : list of ndarray of shape (n_cliques, order)
        Variables of the cliques of each kind.
    examples : list of ndarray of shape (n_cliques,)
        The example of each clique, in ascending order.
    factors : ndarray of shape (n_examples,)
        For each example, the scale of the scores of its cliques.
    n_labels : int
        Number of labels.
    """

    def __init__(self, kinds, examples, factors, Py_ssize_t n_labels):
        orders = [rows.shape[1] for rows in kinds]
        sizes = [n_labels ** order for order in orders]
        if max(sizes) >= 2**31:
            # entries are stored as int32
            raise ValueError(
                f"cliques of {max(orders)} nodes have {max(sizes)} labelings, too many "
                "for a table: use cliques of fewer nodes")
        # sorted by example, so that the cliques of an example are consecutive
        kind = np.repeat(np.arange(len(kinds)), [len(rows) for rows in kinds])
        example = np.concatenate(examples).astype(np.intp)
        order = np.argsort(example, kind="stable")
        kind, example = kind[order], example[order]
        rows = [row for rows in kinds for row in rows]
        # a spare entry at the end, as buffers without cliques would be empty
        flat = [*(rows[k] for k in order), [0]]
        self.n_labels, self.n_cliques = n_labels, len(order)
        self.most_nodes, self.most_outcomes = max(orders), max(sizes)
        self.scopes = np.concatenate(flat).astype(np.intp)
        self.first_node = np.concatenate(
            [[0], np.cumsum(np.array(orders)[kind])]).astype(np.intp)
        starts = np.cumsum([0, *sizes])
        self.first_weight = np.append(starts[kind], 0).astype(np.intp)
        self.factors = np.append(factors[example], 1.0)
        self.first_clique = np.searchsorted(
            example, np.arange(len(factors) + 1)).astype(np.intp)
        self._first_clique, self._scope = self.first_clique, self.scopes
        self._first_node, self._first_weight = self.first_node, self.first_weight
        self._factor = self.factors
        self._prefix = np.empty(max(sizes) // n_labels)
        self.weights = np.zeros(sum(sizes))
        self._weights = self.weights

    def start(self):
        """Set the weights to zero."""
        self.weights[:] = 0.0

    @property
    def orders(self):
        """The number of nodes of each clique."""
        return np.diff(self.first_node)

    @property
    def outcomes(self):
        """The number of labelings of each clique."""
        return self.n_labels ** self.orders

    @property
    def norm(self):
        """The largest squared norm |phi_f|^2 of the features of an outcome."""
        return float((self.factors[:self.n_cliques] ** 2).max(initial=0.0))

    def signature(self):
        """Return bytes that are equal if a saved state of other cliques fits these."""
        return (self.first_clique.tobytes(), self.first_node.tobytes(),
                self.scopes.tobytes(), self.first_weight.tobytes())

    def maximum(self, Py_ssize_t clique, messages):
        """Find the best outcome of a clique, given messages to its nodes; for tests.

        Parameters
        ----------
        clique : int
            The clique.
        messages : ndarray of shape (order, n_labels)
            Messages to all labels of all nodes.

        Returns
        -------
        entry, value : tuple (int, float)
            The number of the outcome, and its score with the messages.
        """
        cdef double[:, ::1] told = np.ascontiguousarray(messages, dtype=np.float64)
        cdef Py_ssize_t entry = 0
        cdef double value = self.best(clique, &told[0, 0], &entry)
        return entry, value

    cdef double best(self, Py_ssize_t clique, const double* messages,
                     Py_ssize_t* entry) noexcept nogil:
        """Write the number of a clique's outcome with the largest score plus messages;
        return the score plus messages of this outcome.
        """
        cdef Py_ssize_t order = self._first_node[clique + 1] - self._first_node[clique]
        cdef Py_ssize_t K = self.n_labels, n = 1, a, b, j
        cdef double* prefix = &self._prefix[0]
        cdef const double* table = &self._weights[self._first_weight[clique]]
        cdef const double* last = messages + (order - 1) * K
        cdef double head, value, most = -INFINITY, factor = self._factor[clique]
        # sums of the messages to all nodes but the last, for all labelings of these
        # nodes: each node extends the list of sums, from its end, so that no sum is
        # overwritten before it is read
        prefix[0] = 0.0
        for j in range(order - 1):
            for a in range(n - 1, -1, -1):
                head = prefix[a]
                for b in range(K - 1, -1, -1):
                    prefix[a * K + b] = head + messages[j * K + b]
            n *= K
        for a in range(n):
            for b in range(K):
                value = factor * table[a * K + b] + (prefix[a] + last[b])
                if value > most:
                    most = value
                    entry[0] = a * K + b
        return most
