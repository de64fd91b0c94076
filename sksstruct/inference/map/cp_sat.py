"""MAP as a problem of Booleans, by CP-SAT of OR-tools, which is an optional extra.

Scores become integer costs, rounded down as for toulbar2, so that the bound of CP-SAT
remains an upper bound on all scores. Entries of -inf become clauses, and conditions
constraints of CP-SAT. CP-SAT runs in a thread, and reacts neither to interrupts nor,
between long steps, to its time limit.
"""

import importlib.util
from dataclasses import dataclass

import numpy as np

from sksstruct.inference.map._integer_costs import IntegerCosts, check_entries
from sksstruct.inference.map._threads import in_thread
from sksstruct.inference.map.core._decode import search_locally, set_marginals
from sksstruct.inference.map.core.solver import TEXTS, MAPSolver
from sksstruct.utils._doc import fill_doc
from sksstruct.utils.progress import Status

# Share of the remaining time that CP-SAT gets.
_SHARE = 0.9
_MISSING = (
    "solver='cp_sat' needs the package ortools, which is not installed: "
    "pip install 'sksstruct[cp_sat]'"
)


@fill_doc(TEXTS)
@dataclass(eq=False, repr=False)
class CPSAT(MAPSolver):
    """Search with learned clauses by CP-SAT of OR-tools; needs ``ortools``.

    The optional extra ``sksstruct[cp_sat]`` installs CP-SAT. Use this solver for
    problems that are nearly satisfiability: planning, coloring, weighted clauses.
    CP-SAT has one thread. All tables are written out and rounded to integer costs, so
    that the bound remains an upper bound on all scores. Optimality is proven by CP-SAT.

    Parameters
    ----------
    max_iter : int, default=1
        Has no effect.
    %(tol)s

    Examples
    --------
    >>> from sksstruct.factor_graphs import FactorGraph, Potts
    >>> from sksstruct.inference.map import CPSAT
    >>> graph = FactorGraph([[0, 1.0], [0.2, 0]], [(0, 1)], Potts(2))
    >>> result = CPSAT().solve(graph)
    >>> result.labeling.tolist(), result.status
    ([1, 1], 'optimal')
    """

    max_iter: int = 1
    tol: float = 1e-6

    _pairwise = False

    def check(self) -> None:
        """Raise an error if a parameter is not valid, or ortools is missing."""
        super().check()
        if importlib.util.find_spec("ortools") is None:
            raise ImportError(_MISSING)

    def _check_graph(self, graph):
        check_entries(graph, "CP-SAT", conditions=False)

    def _run(self, run):
        search_locally(run, run.problem.best_states())
        costs = IntegerCosts(run.problem, self.tol, conditions=False)
        incumbents, solvers = [], []
        try:
            found = in_thread(
                lambda: self._solve(run, costs, incumbents, solvers), run.late
            )
        finally:
            # stop the solver of a thread that is late, or after an interrupt
            for solver in solvers:
                solver.stop_search()
        for labeling in incumbents:
            run.offer(labeling)
        if found is None:
            # the limit has passed before CP-SAT returned
            run.report()
            return
        status, bound = found
        if status == "INFEASIBLE":
            run.status = Status.INFEASIBLE
            return
        run.report(bound=None if bound is None else costs.score(bound))
        if run.status is not Status.OPTIMAL:
            timed = run.max_seconds is not None and status != "OPTIMAL"
            run.status = Status.TIME_LIMIT if timed else Status.STALLED
        set_marginals(run)

    def _solve(self, run, costs, incumbents, solvers):
        """Return CP-SAT's status, and its lower bound on the costs or None.

        None in place of both where the time limit passes first. Labelings are appended
        to `incumbents`, and the solver to `solvers`.
        """
        program = _Program(run.problem.graph, costs, run.late)
        program.hint(run.labeling)
        if run.late():
            return None
        solver = program.cp_model.CpSolver()
        solvers.append(solver)
        parameters = solver.parameters
        parameters.num_workers = 1
        # relax all clauses: otherwise bounds of dense tables stay loose
        parameters.linearization_level = 2
        parameters.random_seed = run.seed() % 2**31
        # interrupts are handled by Python
        parameters.catch_sigint_signal = False
        if run.max_seconds is not None:
            parameters.max_time_in_seconds = max(0.0, _SHARE * run.left())
        status = solver.solve(program.model, program.callback(incumbents))
        name = solver.status_name(status)
        # without a solution, CP-SAT's bound is the lower end of the objective's domain
        has_bound = name in ("OPTIMAL", "FEASIBLE")
        return name, solver.best_objective_bound if has_bound else None


class _Program:
    """The model of CP-SAT.

    A variable of two states is a Boolean, a variable of more states has a Boolean for
    each state, of which exactly one is true. A table has a Boolean for each different
    cost, which clauses make true if an entry of this cost is chosen (the encoding of
    weighted MAX-SAT).

    Parameters
    ----------
    graph : FactorGraph
        A graph with finite scores.
    costs : IntegerCosts
        Integer costs of the graph's variables and factors.
    late : callable
        Whether time is over; the model is not complete then.
    """

    def __init__(self, graph, costs, late):
        from ortools.sat.python import cp_model

        self.cp_model, self.model = cp_model, cp_model.CpModel()
        self._top, self._first = costs.top, graph.first_state
        # the literals with a cost, and their costs
        self._terms, self._weights = [], []
        self.literals = [self._states(int(k)) for k in graph.n_states]
        unary = [np.zeros(int(k), dtype=np.int64) for k in graph.n_states]
        pending = []
        for scope, table in costs.tables():
            if late():
                return
            if len(scope) == 1:
                unary[scope[0]] += table
                continue
            if len(scope) == 2:
                table = _project(table, scope, unary, self._top)
            if table.any():
                pending.append((scope, table))
        for scope, table in pending:
            if late():
                return
            self._add_table([self.literals[v] for v in scope], table)
        for v, values in enumerate(unary):
            self._add_unary(self.literals[v], values)
        for scope, table, _ in graph._listed():
            if table.condition is not None:
                self._add_condition(scope, table)
        self.model.minimize(
            cp_model.LinearExpr.weighted_sum(self._terms, self._weights)
        )

    def _states(self, n_states):
        """Return a new literal for each state of a variable."""
        model = self.model
        if n_states == 1:
            return [model.new_constant(1)]
        if n_states == 2:
            literal = model.new_bool_var("")
            return [literal.negated(), literal]
        literals = [model.new_bool_var("") for _ in range(n_states)]
        model.add_exactly_one(literals)
        return literals

    def _pay(self, literal, cost):
        """Add a cost where a literal is true."""
        self._terms.append(literal)
        self._weights.append(int(cost))

    def _add_unary(self, literals, values):
        for literal, cost in zip(literals, values.tolist(), strict=True):
            if cost >= self._top:
                self.model.add_bool_or([literal.negated()])
            elif cost:
                self._pay(literal, cost)

    def _add_table(self, literals, table):
        """Add the costs of a table of two or more variables."""
        model = self.model
        hard = table >= self._top
        for entry in np.argwhere(hard):
            model.add_bool_or(_negated(literals, entry))
        soft = np.where(hard, 0, table)
        levels = np.unique(soft[soft > 0]).tolist()
        for level in levels:
            paid = model.new_bool_var("")
            self._pay(paid, level)
            for entry in np.argwhere(soft == level):
                model.add_bool_or([*_negated(literals, entry), paid])

    def _add_condition(self, scope, table):
        """Add a condition on variables of two states."""
        model, name = self.model, table.condition
        on = [
            self.literals[v][0 if negated else 1]
            for v, negated in zip(scope, table.negated, strict=True)
        ]
        if name == "xor":
            model.add_exactly_one(on)
        elif name == "atmostone":
            model.add_at_most_one(on)
        elif name == "or":
            model.add_bool_or(on)
        elif name == "budget":
            model.add(sum(on) <= table.limit)
        elif name == "xorout":
            model.add_exactly_one([*on[:-1], on[-1].negated()])
        else:
            model.add_bool_or([*on[:-1], on[-1].negated()])
            for literal in on[:-1]:
                model.add_implication(literal, on[-1])

    def hint(self, labeling):
        """Tell CP-SAT a labeling to begin with."""
        for states, x in zip(self.literals, labeling.tolist(), strict=True):
            if len(states) > 1:
                for k, literal in enumerate(
                    states[len(states) == 2 :], len(states) == 2
                ):
                    self.model.add_hint(literal, k == x)

    def callback(self, incumbents):
        """Return the object that CP-SAT calls with each solution."""

        class Callback(self.cp_model.CpSolverSolutionCallback):
            def on_solution_callback(callback):
                labeling = [
                    next(k for k, x in enumerate(states) if callback.boolean_value(x))
                    for states in self.literals
                ]
                incumbents.append(np.array(labeling, dtype=np.int32))

        return Callback()


def _negated(literals, entry):
    """Return the clause that forbids an entry."""
    return [states[k].negated() for states, k in zip(literals, entry, strict=True)]


def _project(table, scope, unary, top):
    """Move costs of a pair to the costs of its ends, which leaves more zeros."""
    for axis, variable in enumerate(scope):
        least = table.min(axis=1 - axis, keepdims=True)
        # the costs of a state whose entries are all forbidden stay in the table
        least[least >= top] = 0
        table = np.where(table >= top, top, table - least)
        unary[variable] += least.reshape(-1)
    return table
