"""Local search from a labeling: single variables, forests, and windows of variables.

A move gives best states to one variable (iterated conditional modes; Besag, On the
statistical analysis of dirty pictures, JRSS B 48, 1986), to a random forest of
variables (`Forest`), or to a window, exactly up to a budget (`Elimination`). A step of
`anneal` kicks a few variables of a window, makes moves in the window, and is undone if
the score has fallen by more than the falling heat allows: simulated annealing with an
exact inner step.

Moves change the present labeling, whose gain over the first labeling is the sum of the
gains of all moves. Another array holds the best labeling so far, which callers see.
"""

from libc.math cimport log as log_of
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcpy

from sksstruct.inference.map.core._problem cimport Problem, other_end
from sksstruct.inference.map.local_search._elimination cimport Elimination
from sksstruct.inference.map.local_search._forest cimport Forest, pick_best
from sksstruct.utils._pointers cimport doubles, int32s
from sksstruct.utils._random cimport random_below

# Largest number of rounds of iterated conditional modes, as gains that are rounding
# errors may recur for ever.
cdef Py_ssize_t MAX_ROUNDS = 1000
# Default of the total table entries of a window.
cdef double MAX_ENTRIES = 1e7
# Forests that a step of `anneal` moves in its window.
cdef Py_ssize_t FORESTS = 3
# Table entries that take about as long as a visit of a variable in a forest.
cdef Py_ssize_t ENTRIES_PER_VISIT = 8


cdef class LocalMoves:
    """Moves of `LocalSearch`, in its arrays."""

    cdef Problem problem
    cdef object _owned
    cdef readonly Elimination elimination
    cdef readonly double gain
    cdef readonly Py_ssize_t visited
    cdef Forest _forest
    cdef uint64_t _random
    cdef int32_t* _labeling
    cdef int32_t* _best
    cdef double _present_gain
    cdef double* _scores
    # variables of the window; time at which each variable last entered a window; and
    # variables and states at the start of an annealing step, to undo the step
    cdef int32_t* _window
    cdef int32_t* _entry_time
    cdef int32_t* _saved_window
    cdef int32_t* _saved_states
    cdef int32_t _now
    # number and total cost of the kicks of the present annealing
    cdef double _n_kicks, _kick_cost

    def __init__(self, Problem problem, arrays, uint64_t random):
        self.problem, self._owned, self._random = problem, arrays, random
        self.elimination, self._forest = Elimination(problem), Forest(problem)
        self._labeling, self._best = int32s(arrays.labeling), int32s(arrays.best)
        self._scores, self._window = doubles(arrays.scores), int32s(arrays.window)
        self._entry_time = int32s(arrays.entered)
        self._saved_window = int32s(arrays.saved_window)
        self._saved_states = int32s(arrays.saved_states)
        self.gain = self._present_gain = 0.0

    # ---- moves ----

    def conditional_modes(self):
        """Set variables to their best states one by one, until none changes (ICM).

        Returns
        -------
        gain : float
            Total gain in score so far.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t variable, _k
        cdef double gain, total
        # Gauss-Seidel order: each variable is updated given the new states of earlier
        # variables
        with nogil:
            for _k in range(MAX_ROUNDS):
                total = 0.0
                for variable in range(problem.n_variables):
                    if problem.late(16.0 * problem.states[variable]):
                        break
                    gain = self._improve_variable(problem, variable)
                    if gain > 0.0:
                        total += gain
                self._record(problem, total)
                if not total > 0.0 or problem.is_late:
                    break
        return self.gain

    def forests(self, Py_ssize_t moves):
        """Set random forests of variables to their best states.

        Parameters
        ----------
        moves : int
            Number of forests.

        Returns
        -------
        gain : float
            Total gain in score so far.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t _k
        # random forests differ, so that a few moves can change every variable
        with nogil:
            for _k in range(moves):
                if problem.late(16.0 * problem.n_variables * problem.max_states):
                    break
                self._enter_all(problem)
                self._record(problem, self._forest.improve(
                    problem, self._labeling, self._window,
                    problem.n_variables, &self._random))
        return self.gain

    def windows(self, Py_ssize_t moves, Py_ssize_t width, double budget,
                double total=MAX_ENTRIES):
        """Give the variables of random windows their best states.

        Parameters
        ----------
        moves : int
            Number of windows.
        width : int
            Number of variables of each window; states of some are fixed if tables are
            too large.
        budget, total : float
            Largest number of entries of one table, and of all tables of a window.

        Returns
        -------
        gain : float
            Total gain in score so far.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t start, size, _k
        with nogil:
            for _k in range(moves):
                if problem.late(16.0 * width):
                    break
                # random centers, so that windows overlap
                start = random_below(&self._random, problem.n_variables)
                size = self._enter_around(
                    problem, start, min(width, problem.n_variables))
                self._record(
                    problem, self._improve_window(problem, size, budget, total))
        return self.gain

    def solve(self, double total):
        """Find the best labeling of all variables, if the graph is narrow.

        Parameters
        ----------
        total : float
            Largest number of entries of all tables.

        Returns
        -------
        solved : bool
            Whether no state was fixed, so that the labeling is optimal.
        """
        cdef Problem problem = self.problem
        # in a wide graph many states would be fixed, after a long time of planning
        if not self.elimination.fits(problem, total):
            return False
        with nogil:
            self._enter_all(problem)
            self._record(problem, self._improve_window(
                problem, problem.n_variables, total, total))
        return self.elimination.solved

    def randomize(self):
        """Give all variables random states."""
        cdef Problem problem = self.problem
        cdef Py_ssize_t variable
        for variable in range(problem.n_variables):
            self._labeling[variable] = random_below(
                &self._random, problem.states[variable])

    def forget(self):
        """Make the current labeling the best so far."""
        memcpy(self._best, self._labeling, self.problem.n_variables * sizeof(int32_t))
        self.gain = self._present_gain = 0.0

    cdef void _record(self, Problem problem, double gain) noexcept nogil:
        """Add a move's gain to the current labeling's; update the best labeling."""
        self._present_gain += gain
        if self._present_gain > self.gain:
            self.gain = self._present_gain
            memcpy(self._best, self._labeling,
                   problem.n_variables * sizeof(int32_t))

    cdef double _improve_variable(self, Problem problem,
                                  Py_ssize_t variable) noexcept nogil:
        """Give a variable its best state; return the gain."""
        cdef double* scores = self._scores
        cdef Py_ssize_t best
        cdef double gain
        # after `clear`, `condition` treats all neighbors as outside the forest
        self._forest.clear()
        self._forest.condition(problem, self._labeling, variable, scores)
        best = pick_best(scores, problem.states[variable], &self._random)
        gain = scores[best] - scores[self._labeling[variable]]
        # a tie is no change, so that the rounds end
        if gain > 0.0:
            self._labeling[variable] = best
        return gain

    cdef double _improve_window(self, Problem problem, Py_ssize_t size,
                                double budget, double total) except? -1.0 nogil:
        """Give the variables of the window their best states; return the gain."""
        return self.elimination.improve(problem, self._labeling, self._window,
                                        size, budget, total, &self._random)

    # ---- windows ----

    cdef void _enter_all(self, Problem problem) noexcept nogil:
        """Make a window of all variables."""
        cdef Py_ssize_t variable
        for variable in range(problem.n_variables):
            self._window[variable] = variable

    cdef Py_ssize_t _enter_around(self, Problem problem, Py_ssize_t start,
                                  Py_ssize_t limit) noexcept nogil:
        """Make a window around a variable, breadth first; return its size."""
        cdef Py_ssize_t head = 0, size = 1, i, k, variable, begin, degree, shift, factor
        # time stamps instead of flags: the next window needs no reset
        self._now += 1
        self._window[0] = start
        self._entry_time[start] = self._now
        while head < size and size < limit:
            variable = self._window[head]
            head += 1
            begin = problem.in_first[variable]
            degree = problem.in_larger[variable] - begin
            # begin at a random edge, so that windows of limited size differ
            shift = random_below(&self._random, degree) if degree else 0
            for i in range(degree):
                size = self._enter(other_end(
                    problem, problem.in_factor[begin + (i + shift) % degree], variable),
                    size, limit)
            # larger factors connect their variables as edges do
            for i in range(problem.in_larger[variable], problem.in_first[variable + 1]):
                factor = problem.in_factor[i]
                for k in range(problem.scope_first[factor],
                               problem.scope_first[factor + 1]):
                    size = self._enter(problem.scope[k], size, limit)
        return size

    cdef Py_ssize_t _enter(self, Py_ssize_t variable, Py_ssize_t size,
                           Py_ssize_t limit) noexcept nogil:
        """Append a new variable to the window if there is room; return the new size."""
        if self._entry_time[variable] == self._now or size == limit:
            return size
        self._entry_time[variable] = self._now
        self._window[size] = variable
        return size + 1

    # ---- annealing ----

    def anneal(self, Py_ssize_t work, double heat=1.0, double cold=0.0,
               double budget=0.0, Py_ssize_t width=300):
        """Alternate kicks and moves in a window while the heat falls.

        The moves are exact in the window, or in some forests of its variables.

        Parameters
        ----------
        work : int
            Stop after moves have visited this many variables.
        heat, cold : float, default=1.0, 0.0
            Losses that are accepted at the start and at the end, in units of the
            average cost of a kick. If cold is 0, the next moves start from the best
            labeling, otherwise from the last.
        budget : float, default=0.0
            Largest number of entries of a table of a window; 0: forests.
        width : int, default=300
            Largest number of variables of a window.

        Returns
        -------
        gain : float
            Total gain in score of the best labeling so far.
        """
        cdef Problem problem = self.problem
        cdef Py_ssize_t n_sizes = 1
        # windows have sizes 2, 4, 8, ... with equal probabilities, at most `width`
        while (2 << n_sizes) < problem.n_variables:
            n_sizes += 1
        with nogil:
            self.visited = 0
            self._n_kicks = self._kick_cost = 0.0
            while self.visited < work and not problem.late(16.0 * width):
                self._anneal_once(problem, work, heat, cold, budget,
                                  min(problem.n_variables, width), n_sizes)
            if cold == 0.0:
                memcpy(self._labeling, self._best,
                       problem.n_variables * sizeof(int32_t))
                self._present_gain = self.gain
        return self.gain

    cdef int _anneal_once(self, Problem problem, Py_ssize_t work, double heat,
                          double cold, double budget, Py_ssize_t width,
                          Py_ssize_t n_sizes) except -1 nogil:
        """Kick and move variables of a random window; accept or undo all of it."""
        cdef Py_ssize_t limit, start, size, _k
        cdef double gain, progress, temperature, uniform
        # `visited` grows even if moves visit no variable, so that the loop of `anneal`
        # ends
        self.visited += 1
        limit = min(width, 2 << random_below(&self._random, n_sizes + 1))
        start = random_below(&self._random, problem.n_variables)
        size = self._enter_around(problem, start, limit)
        self._save(size)
        gain = self._kick_some(problem, size)
        if budget > 0.0:
            gain += self._improve_window(problem, size, budget, MAX_ENTRIES)
            self.visited += size
            self.visited += self.elimination.order.n_entries // ENTRIES_PER_VISIT
        else:
            for _k in range(FORESTS):
                gain += self._forest.improve(problem, self._labeling,
                                             self._window, size, &self._random)
                self.visited += self._forest.size
        # Metropolis: a loss is accepted with probability exp(-loss / temperature)
        progress = min(1.0, <double>self.visited / work)
        temperature = heat + (cold - heat) * progress
        temperature *= max(0.0, self._kick_cost / self._n_kicks)
        uniform = (random_below(&self._random, 1 << 30) + 1.0) / (1 << 30)
        # moves along plateaus are accepted, with a margin for rounding errors
        if gain < temperature * log_of(uniform) - 1e-12:
            self._restore(size)
        else:
            self._record(problem, gain)
        return 0

    cdef void _save(self, Py_ssize_t size) noexcept nogil:
        """Save the states of a window, and its variables, which moves shuffle."""
        cdef Py_ssize_t i
        # an annealing step changes no states outside the window
        for i in range(size):
            self._saved_window[i] = self._window[i]
            self._saved_states[i] = self._labeling[self._window[i]]

    cdef void _restore(self, Py_ssize_t size) noexcept nogil:
        """Give the variables of the saved window their saved states."""
        cdef Py_ssize_t i
        for i in range(size):
            self._labeling[self._saved_window[i]] = self._saved_states[i]

    cdef double _kick_some(self, Problem problem, Py_ssize_t size) noexcept nogil:
        """Kick up to nine variables of a window; return the gain, mostly negative."""
        cdef Py_ssize_t kicks = 1 + random_below(&self._random, 1 + min(size, 16) // 2)
        cdef Py_ssize_t variable, _k
        cdef double gain, total = 0.0
        for _k in range(kicks):
            # variables are drawn with replacement
            variable = self._window[random_below(&self._random, size)]
            gain = self._kick(problem, variable)
            total += gain
            self._kick_cost -= gain
        self._n_kicks += kicks
        return total

    cdef double _kick(self, Problem problem, Py_ssize_t variable) noexcept nogil:
        """Give a variable the best of up to three random states; return the gain."""
        cdef double* scores = self._scores
        cdef Py_ssize_t n = problem.states[variable], state, present, _k
        cdef Py_ssize_t best = random_below(&self._random, n)
        cdef double gain
        self._forest.clear()
        self._forest.condition(problem, self._labeling, variable, scores)
        present = self._labeling[variable]
        # most states of a variable with many states lower the score much: a step with
        # the best of three random states is accepted more often
        for _k in range(2 if n > 4 else 0):
            state = random_below(&self._random, n)
            if state != present and (scores[state] > scores[best] or best == present):
                best = state
        # the state is kept even if the score falls: `_anneal_once` accepts or undoes
        # the whole step
        gain = scores[best] - scores[present]
        self._labeling[variable] = best
        return gain
