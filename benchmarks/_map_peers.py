"""AD3, on graphs of edges, and toulbar2, if they are installed.

Both are called in processes of their own: toulbar2 keeps global state, and its progress
is read from what it prints. AD3 has no clock and no usable intermediate answers, so it
is run with more and more iterations; the time is that of the shortest run with its best
labeling.
"""

import ctypes
import os
import re
import sys
import tempfile
import time

import numpy as np


class _Printed:
    """What is written to file descriptor 1 meanwhile."""

    def __enter__(self):
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        self._file, self._old = tempfile.TemporaryFile(), os.dup(1)
        os.dup2(self._file.fileno(), 1)
        return self

    def __exit__(self, *error):
        sys.stdout.flush()
        ctypes.CDLL(None).fflush(None)
        os.dup2(self._old, 1)
        os.close(self._old)
        self._file.seek(0)
        self.text = self._file.read().decode(errors="replace")


def written_out(graph):
    """Rows of unary scores, and a table for each edge."""
    weights = graph.edge_weights
    weights = np.ones(graph.n_edges) if weights is None else weights
    tables = [
        graph.tables[t].dense() * w
        for t, w in zip(graph.edge_tables, weights, strict=True)
    ]
    return [graph.unary(v) for v in range(graph.n_variables)], tables


def toulbar2(graph, seconds):
    """Score, seconds to it, and whether it is proved."""
    import pytoulbar2

    unaries, tables = written_out(graph)
    for v in np.flatnonzero(graph.evidence >= 0):
        other = np.arange(len(unaries[v])) != graph.evidence[v]
        unaries[v] = np.where(other, -np.inf, unaries[v])
    scopes = [[v] for v in range(graph.n_variables)]
    scopes += [
        *graph.edges.tolist(),
        *(scope.tolist() for scope in graph.factor_scopes),
    ]
    terms = [*unaries, *tables, *(graph.tables[t].dense() for t in graph.factor_tables)]
    costs = [a[np.isfinite(a)].max(initial=-1e9) - a for a in terms]
    worst = 1.0 + sum(c[np.isfinite(c)].max(initial=0.0) for c in costs)
    costs = [np.where(np.isfinite(c), c, worst) for c in costs]
    model = pytoulbar2.CFN(ubinit=worst, resolution=6, verbose=0)
    for v, n in enumerate(graph.n_states):
        model.AddVariable(f"x{v}", range(int(n)))
    for scope, cost in zip(scopes, costs, strict=True):
        model.AddFunction(scope, cost.ravel().tolist())
    # its clock runs since the model was made
    before = time.process_time() - model.Option.startCpuTime
    started = time.perf_counter()
    with _Printed() as printed:
        found = model.Solve(timeLimit=int(seconds))
    used = time.perf_counter() - started
    if not found:
        return -np.inf, used, False
    times = re.findall(r"New solution: \S+ \(.*?([\d.]+) seconds\)", printed.text)
    first = float(times[-1]) - before if times else used
    score = graph.score([int(x) for x in found[0]])
    return score, max(first, 0.0), "Optimum:" in printed.text


def ad3(graph, seconds, eta=1.0):
    """Score, seconds to it, and whether the last answer was integral."""
    from ad3 import PFactorGraph

    unaries, tables = written_out(graph)
    best, when, proved, iterations, spent = -np.inf, np.nan, False, 5, 0.0
    while spent < seconds:
        peer = PFactorGraph()
        variables = [peer.create_multi_variable(int(n)) for n in graph.n_states]
        for variable, scores in zip(variables, unaries, strict=True):
            variable.set_log_potentials(np.maximum(scores, -1e3))
        for (u, v), table in zip(graph.edges, tables, strict=True):
            scores = np.maximum(table, -1e3).ravel().tolist()
            peer.create_factor_dense([variables[u], variables[v]], scores)
        started = time.perf_counter()
        with _Printed():
            status = peer.solve(
                eta=eta, max_iter=iterations, tol=1e-6, ensure_multi_variables=False
            )[3]
        used = time.perf_counter() - started
        flat = np.asarray(peer.get_global_primal_variables())
        parts = np.split(flat, np.cumsum(graph.n_states)[:-1])
        # it knows nothing of variables without edges
        for v in np.setdiff1d(np.arange(graph.n_variables), graph.edges):
            parts[v] = unaries[v]
        score = graph.score([int(np.argmax(part)) for part in parts])
        if score > best + 1e-9 * abs(best) or best == -np.inf:
            best, when = score, used
        spent += used
        if status in ("integral", "fractional"):
            return best, when, status == "integral"
        iterations = int(1.5 * iterations) + 1
    return best, when, proved


PEERS = {"toulbar2": toulbar2, "ad3": ad3}
