"""Set-up and export of a cost network: the arrays that the kernels work on."""

from types import SimpleNamespace

import numpy as np

from sksstruct.inference.map.branch_and_bound._consistency import Consistency
from sksstruct.inference.map.core._index import offsets, places_by


class Network(Consistency):
    """A network of integer costs that propagation keeps soft arc consistent.

    Parameters
    ----------
    unaries : list of ndarrays of shape (n_values,), int64
        Costs of the values of each variable, at least 0.
    scopes : list of tuples of int
        The variables of each factor, in increasing order.
    tables : list of ndarrays, int64
        Costs of the factors, at least 0.
    limit : int
        Labelings that cost this much or more are not searched for.
    c0 : int, default=0
        Cost that all labelings share.

    Attributes
    ----------
    c0 : int
        Lower bound on the costs.
    limit : int
        The parameter, or the lower limit that a search has set.
    work : int
        Number of table entries read so far.
    culprit : int
        The factor of the last projection.
    arrays : SimpleNamespace
        The arrays that the kernel works on.
    """

    def __init__(self, unaries, scopes, tables, limit, c0=0):
        sizes = np.array([len(row) for row in unaries], dtype=np.intp)
        n, most = len(sizes), int(sizes.max(initial=1))
        values = np.concatenate([*map(np.arange, sizes), []]).astype(np.int32)
        self.arrays = SimpleNamespace(
            first=offsets(sizes),
            unary=np.concatenate([*unaries, []]).astype(np.int64),
            # `place` is the seat of each value in `values`: first, value k is at seat k
            values=values,
            place=values.copy(),
            size=sizes.astype(np.int64),
            settled=np.zeros(n, dtype=np.int64),
            highest=np.array([row.max() for row in unaries], dtype=np.int64),
            tables=[np.ascontiguousarray(table, dtype=np.int64) for table in tables],
            # workspace: pointers to the tables, a cost for each value of one variable,
            # and the flags of three queues
            pointers=np.empty(len(tables), dtype=np.intp),
            least=np.zeros(most, dtype=np.int64),
            waits=np.zeros((3, n), dtype=np.uint8),
            support=np.zeros(n, dtype=np.int32),
            **_index(scopes, sizes),
        )
        super().__init__(self.arrays, limit, c0)

    def export(self):
        """Return the remaining values, the costs of values, and the costs of factors.

        Returns
        -------
        values : list of ndarrays
            The remaining values of each variable, in increasing order.
        unaries : list of ndarrays
            Costs of the remaining values.
        tables : list of ndarrays
            Costs of the factors for the remaining values.
        """
        net = self.arrays
        first, delta_first = net.first.tolist(), net.delta_first.tolist()
        values = [
            np.sort(net.values[begin : begin + n])
            for begin, n in zip(first, net.size.tolist(), strict=False)
        ]
        unaries = [net.unary[first[v] + keep] for v, keep in enumerate(values)]
        scope, scope_first, tables = net.scope.tolist(), net.scope_first.tolist(), []
        for table, begin, end in zip(
            net.tables, scope_first, scope_first[1:], strict=False
        ):
            members = scope[begin:end]
            # index arrays: the remaining values of each variable on its axis
            keep = tuple(
                values[v].reshape((-1,) + (1,) * (len(members) - 1 - axis))
                for axis, v in enumerate(members)
            )
            costs = table.reshape([first[v + 1] - first[v] for v in members])[keep]
            for place, side in enumerate(keep, begin):
                costs -= net.delta[delta_first[place] + side]
            tables.append(np.minimum(costs, self.limit))
        return values, unaries, tables


def _index(scopes, sizes):
    """Concatenate scopes; list the places in scopes, and factors, of each variable."""
    arity = np.array([len(scope) for scope in scopes], dtype=np.intp)
    flat = np.array([v for scope in scopes for v in scope], dtype=np.intp)
    delta_first = offsets(sizes[flat])
    in_first, places = places_by(flat, len(sizes))
    factors = np.repeat(np.arange(len(arity), dtype=np.int32), arity)
    return {
        "scope_first": offsets(arity),
        "scope": flat.astype(np.int32),
        "delta_first": delta_first,
        "delta": np.zeros(delta_first[-1], dtype=np.int64),
        "residue": np.zeros(delta_first[-1], dtype=np.int32),
        "in_first": in_first,
        "in_place": places,
        "in_factor": factors[places],
        "digit": np.zeros(int(arity.max(initial=1)), dtype=np.int32),
    }
