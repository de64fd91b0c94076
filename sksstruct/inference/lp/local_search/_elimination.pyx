"""Best states of many variables at once by eliminating them one after the other.

Dechter, Bucket elimination (Artificial Intelligence 113, 1999), for a maximum: the next
variable is the one whose elimination leaves the smallest table. Where every table would
be larger than a budget, the variable with most neighbours keeps its state instead, so
that what is solved exactly is a subgraph of bounded width, given the rest: with width
one it is the forest of `LocalSearch`. Where no variable had to be kept the labeling is
optimal.
"""

import numpy as np

from libc.math cimport INFINITY
from libc.stdlib cimport free, realloc


# Graphs whose cyclic part has more variables are not looked at as a whole.
cdef Py_ssize_t MAX_CORE = 3000


cdef class Elimination:
    """Scratch for windows of a problem.

    Parameters
    ----------
    problem : Problem
        The graph.

    Attributes
    ----------
    n_fixed : int
        Variables of the last window that had to keep their states.
    n_entries : int
        Entries of the tables of the last window.
    """

    def __cinit__(self, MAPProblem problem):
        cdef Py_ssize_t n = problem.n
        self.local = np.full(n, -1, dtype=np.int32)
        self.var, self.n_near, self.place, self.order, self.chosen, self.at = (
            np.zeros(n, dtype=np.int32) for _ in range(6))
        # a variable becomes a leaf at most twice: with one neighbour, and with none
        self.leaves = np.zeros(3 * n + 1, dtype=np.int32)
        self.cand = np.empty(problem.first[n], dtype=np.int32)
        self.n_cand = np.zeros(n, dtype=np.int32)
        self.bucket, self.best_start = (np.zeros(n, dtype=np.intp) for _ in range(2))
        self.near = np.empty((n, MAX_NEIGHBOURS), dtype=np.int32)
        self.all_states(problem)

    def all_states(self, MAPProblem problem):
        """Let every variable have all of its states."""
        cdef Py_ssize_t v, k
        for v in range(problem.n):
            self.n_cand[v] = problem.states[v]
            for k in range(problem.states[v]):
                self.cand[problem.first[v] + k] = k

    def best_states(self, MAPProblem problem, const double[::1] scores,
                    Py_ssize_t limit, const int32_t[::1] labeling):
        """Let every variable have its states with the largest scores.

        Parameters
        ----------
        problem : Problem
            The graph.
        scores : ndarray of shape (n_states.sum(),)
            Scores of all states.
        limit : int
            Number of states of each variable.
        labeling : ndarray of shape (n_variables,)
            States that stay in any case.
        """
        cdef Py_ssize_t v, k, first, size
        for v in range(problem.n):
            first, size = problem.first[v], problem.states[v]
            if size <= limit:
                self.n_cand[v] = size
                for k in range(size):
                    self.cand[first + k] = k
                continue
            part = np.asarray(scores[first:first + size])
            best = np.argpartition(-part, limit - 1)[:limit]
            if labeling[v] not in best:
                best[np.argmin(part[best])] = labeling[v]
            np.asarray(self.cand)[first:first + limit] = best
            self.n_cand[v] = limit

    def __dealloc__(self):
        free(self.arena)
        free(self.choice)
        free(self.parts)

    def fits(self, MAPProblem problem, double total):
        """Whether all variables can be eliminated, with so many entries at most.

        Parameters
        ----------
        problem : Problem
            The graph.
        total : float
            Most entries of all tables.

        Returns
        -------
        fits : bool
            Whether `improve` with all variables would keep none.
        """
        cdef Py_ssize_t v
        cdef uint64_t random = 1
        cdef MAPProblem p = problem
        # a cheap look first: the ends of edges are in a table each
        if p.m > 32 * p.n:
            return False
        for v in range(p.n):
            self.var[v] = v
            self.local[v] = v
        with nogil:
            self._plan(p, p.n, total, total, &random, True)
            for v in range(p.n):
                self.local[v] = -1
        return self.n_fixed == 0

    # ---- the order ----

    cdef bint _link(self, Py_ssize_t a, Py_ssize_t b) noexcept nogil:
        """Note that a and b are neighbours; False where a has too many."""
        cdef Py_ssize_t k
        for k in range(self.n_near[a]):
            if self.near[a, k] == b:
                return True
        if self.n_near[a] == MAX_NEIGHBOURS or self.n_near[b] == MAX_NEIGHBOURS:
            return False
        self.near[a, self.n_near[a]] = b
        self.n_near[a] += 1
        self.near[b, self.n_near[b]] = a
        self.n_near[b] += 1
        return True

    cdef void _drop(self, Py_ssize_t a) noexcept nogil:
        """Take a out of the lists of its neighbours."""
        cdef Py_ssize_t k, i, b
        for k in range(self.n_near[a]):
            b = self.near[a, k]
            for i in range(self.n_near[b]):
                if self.near[b, i] == a:
                    self.n_near[b] -= 1
                    self.near[b, i] = self.near[b, self.n_near[b]]
                    break

    cdef void _fix(self, Py_ssize_t a) noexcept nogil:
        """Let a keep its state."""
        self._drop(a)
        self.n_near[a] = 0
        self.place[a] = -2
        self.local[self.var[a]] = -1
        self.n_fixed += 1

    cdef void _move(self, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
        """Put the variable at place i of the order at place k."""
        self.order[k] = self.order[i]
        self.at[self.order[k]] = k

    cdef double _size(self, Py_ssize_t a) noexcept nogil:
        """Entries that eliminating a would visit."""
        cdef Py_ssize_t k
        cdef double size = self.n_cand[self.var[a]]
        for k in range(self.n_near[a]):
            size *= self.n_cand[self.var[self.near[a, k]]]
        return size

    cdef bint _plan(self, MAPProblem p, Py_ssize_t size, double budget,
                    double total, uint64_t* random, bint whole) noexcept nogil:
        """Neighbours, kept variables, and the order; False: nothing is left.

        With `whole` it gives up, n_fixed > 0, instead of keeping any variable.
        """
        cdef Py_ssize_t a, b, v, s, e, k, i, f, other, best, done = 0, worst, left
        cdef Py_ssize_t n_leaves
        cdef double c, low, spent = 0.0
        cdef bint fits
        self.n_fixed = 0
        for a in range(size):
            self.n_near[a], self.place[a] = 0, -1
        for a in range(size):
            if self.place[a] != -1:
                continue
            v = self.var[a]
            # more parts than a bucket holds
            fits = (p.adj_first[v + 1] - p.adj_first[v]
                    + p.in_first[v + 1] - p.in_first[v]) <= 2 * MAX_NEIGHBOURS
            if fits:
                for s in range(p.adj_first[v], p.adj_first[v + 1]):
                    e = p.adj_edge[s]
                    other = p.ends[e, 1] if p.ends[e, 0] == v else p.ends[e, 0]
                    b = self.local[other]
                    if b >= 0 and b < a and not self._link(a, b):
                        # the one that has no room keeps its state
                        if self.n_near[b] == MAX_NEIGHBOURS:
                            self._fix(b)
                            continue
                        fits = False
                        break
            if fits:
                for k in range(p.in_first[v], p.in_first[v + 1]):
                    f = p.in_factor[k]
                    for i in range(p.scope_first[f], p.scope_first[f + 1]):
                        b = self.local[p.scope[i]]
                        if b >= 0 and b < a and not self._link(a, b):
                            fits = False
                            break
                    if not fits:
                        break
            if not fits:
                self._fix(a)
        # the variables that are left, by their position in `order` from `done` on
        left = 0
        for a in range(size):
            if self.place[a] == -1:
                self.order[left] = a
                self.at[a] = left
                left += 1
        # leaves first, as they come up: they cost nobody anything
        n_leaves = 0
        for i in range(left):
            if self.n_near[self.order[i]] <= 1:
                self.leaves[n_leaves] = self.order[i]
                n_leaves += 1
        while done < left:
            best, worst, low = -1, -1, INFINITY
            while n_leaves and best < 0:
                n_leaves -= 1
                a = self.leaves[n_leaves]
                if self.place[a] == -1 and self.n_near[a] <= 1:
                    best, low = self.at[a], self._size(a)
            if best < 0 and whole and (self.n_fixed or left - done > MAX_CORE):
                self.n_fixed += 1
                return False
            for i in range(done, left if best < 0 else done):
                a = self.order[i]
                c = self._size(a)
                if c < low:
                    best, low = i, c
            if whole and (low > budget or spent + low > total):
                self.n_fixed += 1
                return False
            if low > budget or spent + low > total:
                for i in range(done, left):
                    a = self.order[i]
                    if worst < 0 or self.n_near[a] > self.n_near[self.order[worst]]:
                        worst = i
                    elif self.n_near[a] == self.n_near[self.order[worst]]:
                        # any of those that tie
                        random[0] ^= random[0] >> 12
                        random[0] ^= random[0] << 25
                        random[0] ^= random[0] >> 27
                        if random[0] & 1:
                            worst = i
                self._fix(self.order[worst])
                left -= 1
                self._move(left, worst)
                continue
            a = self.order[best]
            self._drop(a)
            fits = True
            for k in range(self.n_near[a]):
                for i in range(k):
                    if not self._link(self.near[a, k], self.near[a, i]):
                        fits = False
            if not fits:
                # its neighbours' lists are full: it keeps its state, as they forgot it
                self.n_near[a] = 0
                self._fix(a)
                left -= 1
                self._move(left, best)
                continue
            spent += low
            self._move(done, best)
            self.order[done] = a
            self.place[a] = done
            done += 1
            for k in range(self.n_near[a]):
                if self.n_near[self.near[a, k]] <= 1:
                    self.leaves[n_leaves] = self.near[a, k]
                    n_leaves += 1
        self.n_entries = <Py_ssize_t>spent
        self.n_placed = done
        return done > 0

    # ---- the tables ----

    cdef Py_ssize_t _part(self, Py_ssize_t entries) noexcept nogil:
        """A new part with room for so many entries; -1: no memory."""
        cdef void* grown
        cdef Py_ssize_t room
        if self.n_parts == self.parts_room:
            room = 2 * self.parts_room + 64
            grown = realloc(self.parts, room * sizeof(Part))
            if not grown:
                return -1
            self.parts, self.parts_room = <Part*>grown, room
        if self.arena_size + entries > self.arena_room:
            room = 2 * self.arena_room + entries + 1024
            grown = realloc(self.arena, room * sizeof(double))
            if not grown:
                return -1
            self.arena, self.arena_room = <double*>grown, room
        self.parts[self.n_parts].start = self.arena_size
        self.parts[self.n_parts].count = 0
        self.arena_size += entries
        self.n_parts += 1
        return self.n_parts - 1

    cdef void _file(self, Py_ssize_t part) noexcept nogil:
        """Give a part to the variable of its scope that is eliminated first."""
        cdef Part* t = &self.parts[part]
        cdef Py_ssize_t k, a = t.scope[0]
        for k in range(1, t.count):
            if self.place[t.scope[k]] < self.place[a]:
                a = t.scope[k]
        t.next = self.bucket[a]
        self.bucket[a] = part

    cdef bint _load(self, MAPProblem p, int32_t* x, Py_ssize_t size) noexcept nogil:
        """The parts of the graph inside of the window, given what is outside."""
        cdef Py_ssize_t a, b, v, s, e, k, i, f, other, part, entries, at
        cdef Part* t
        cdef bint first
        cdef double* out
        self.n_parts = self.arena_size = 0
        for a in range(size):
            self.bucket[a] = -1
        for a in range(size):
            if self.place[a] < 0:
                continue
            v = self.var[a]
            part = self._part(self.n_cand[v])
            if part < 0:
                return False
            t = &self.parts[part]
            t.count, t.scope[0] = 1, a
            out = self.arena + t.start
            for k in range(self.n_cand[v]):
                out[k] = p.unary[p.first[v] + self.cand[p.first[v] + k]]
            for s in range(p.adj_first[v], p.adj_first[v + 1]):
                e = p.adj_edge[s]
                first = p.ends[e, 0] == v
                other = p.ends[e, 1] if first else p.ends[e, 0]
                b = self.local[other]
                if b < 0:
                    for k in range(self.n_cand[v]):
                        i = self.cand[p.first[v] + k]
                        out[k] += (p.entry(e, i, x[other]) if first
                                   else p.entry(e, x[other], i))
            self._file(part)
            for s in range(p.adj_first[v], p.adj_first[v + 1]):
                e = p.adj_edge[s]
                if p.ends[e, 0] != v or self.local[p.ends[e, 1]] < 0:
                    continue
                other = p.ends[e, 1]
                part = self._part(self.n_cand[v] * self.n_cand[other])
                if part < 0:
                    return False
                t = &self.parts[part]
                t.count, t.scope[0], t.scope[1] = 2, a, self.local[other]
                out = self.arena + t.start
                for k in range(self.n_cand[v]):
                    for i in range(self.n_cand[other]):
                        out[0] = p.entry(e, self.cand[p.first[v] + k],
                                         self.cand[p.first[other] + i])
                        out += 1
                self._file(part)
            for s in range(p.in_first[v], p.in_first[v + 1]):
                # larger factors come with the first of their variables that is here
                f = p.in_factor[s]
                entries, first = 1, True
                for i in range(p.scope_first[f], p.scope_first[f + 1]):
                    if self.local[p.scope[i]] >= 0:
                        if entries == 1 and first:
                            first = False
                            if p.scope[i] != v:
                                entries = -1
                                break
                        entries *= self.n_cand[p.scope[i]]
                if entries < 0:
                    continue
                part = self._part(entries)
                if part < 0:
                    return False
                t = &self.parts[part]
                for i in range(p.scope_first[f], p.scope_first[f + 1]):
                    b = self.local[p.scope[i]]
                    if b >= 0:
                        t.scope[t.count] = b
                        t.count += 1
                        self.chosen[b] = x[p.scope[i]]
                for at in range(entries):
                    k = at
                    for i in range(t.count - 1, -1, -1):
                        other = self.var[t.scope[i]]
                        x[other] = self.cand[p.first[other] + k % self.n_cand[other]]
                        k //= self.n_cand[other]
                    self.arena[t.start + at] = p.higher_entry(f, x)
                for i in range(t.count):
                    x[self.var[t.scope[i]]] = self.chosen[t.scope[i]]
                self._file(part)
        return True

    cdef bint _maximise(self, Py_ssize_t size) noexcept nogil:
        """Eliminate all variables; what is best for each is in `choice`."""
        cdef Py_ssize_t done, a, k, i, j, part, entries, n_bucket, at, room
        cdef Py_ssize_t made
        cdef int32_t count, own, best
        cdef int32_t digit[MAX_NEIGHBOURS + 1]
        cdef Py_ssize_t at_part[2 * MAX_NEIGHBOURS + 66]
        cdef Py_ssize_t stride[(2 * MAX_NEIGHBOURS + 66) * (MAX_NEIGHBOURS + 1)]
        cdef Py_ssize_t own_stride[2 * MAX_NEIGHBOURS + 66]
        cdef Part* t
        cdef Part* m
        cdef double c, top
        cdef void* grown
        self.choice_size = 0
        self.top = 0.0
        for done in range(size):
            a = self.order[done]
            own = self.n_cand[self.var[a]]
            # some may have been kept after a was put in its place
            count = 0
            for k in range(self.n_near[a]):
                if self.place[self.near[a, k]] >= 0:
                    self.near[a, count] = self.near[a, k]
                    count += 1
            self.n_near[a] = count
            entries = 1
            for k in range(count):
                entries *= self.n_cand[self.var[self.near[a, k]]]
            made = self._part(entries)
            if made < 0:
                return False
            m = &self.parts[made]
            m.count = count
            for k in range(count):
                m.scope[k] = self.near[a, k]
            if self.choice_size + entries > self.choice_room:
                room = 2 * self.choice_room + entries + 1024
                grown = realloc(self.choice, room * sizeof(int32_t))
                if not grown:
                    return False
                self.choice, self.choice_room = <int32_t*>grown, room
            self.best_start[a] = self.choice_size
            n_bucket, part = 0, self.bucket[a]
            while part >= 0:
                if n_bucket == 2 * MAX_NEIGHBOURS + 66:
                    return False
                t = &self.parts[part]
                j = 1
                own_stride[n_bucket] = 0
                for k in range(count):
                    stride[n_bucket * (MAX_NEIGHBOURS + 1) + k] = 0
                for i in range(t.count - 1, -1, -1):
                    if t.scope[i] == a:
                        own_stride[n_bucket] = j
                    else:
                        for k in range(count):
                            if m.scope[k] == t.scope[i]:
                                stride[n_bucket * (MAX_NEIGHBOURS + 1) + k] = j
                                break
                    j *= self.n_cand[self.var[t.scope[i]]]
                at_part[n_bucket] = t.start
                n_bucket += 1
                part = t.next
            for k in range(count):
                digit[k] = 0
            for at in range(entries):
                top, best = -INFINITY, 0
                for k in range(own):
                    c = 0.0
                    for i in range(n_bucket):
                        c += self.arena[at_part[i] + k * own_stride[i]]
                    if c > top:
                        top, best = c, k
                self.arena[m.start + at] = top
                self.choice[self.choice_size + at] = best
                k = count - 1
                while k >= 0:
                    digit[k] += 1
                    if digit[k] < self.n_cand[self.var[m.scope[k]]]:
                        for i in range(n_bucket):
                            at_part[i] += stride[i * (MAX_NEIGHBOURS + 1) + k]
                        break
                    for i in range(n_bucket):
                        at_part[i] -= (stride[i * (MAX_NEIGHBOURS + 1) + k]
                                       * (digit[k] - 1))
                    digit[k] = 0
                    k -= 1
            self.choice_size += entries
            if count:
                self._file(made)
            else:
                self.top += self.arena[m.start]
        return True

    cdef double improve(self, MAPProblem p, int32_t* x, const int32_t* window,
                        Py_ssize_t size, double budget, double total,
                        uint64_t* random) noexcept nogil:
        """Best states in a window, but for what has to be kept; the gain.

        Tables have at most `budget` entries, all together `total`.
        """
        cdef Py_ssize_t a, k, done, at, i, v
        cdef double gain = 0.0
        self.solved = False
        for a in range(size):
            v = window[a]
            self.var[a] = v
            self.local[v] = a
            # the present state is a candidate
            for k in range(self.n_cand[v]):
                if self.cand[p.first[v] + k] == x[v]:
                    break
            else:
                self.cand[p.first[v] + self.n_cand[v] - 1] = x[v]
        if self._plan(p, size, budget, total, random, False) and self._load(p, x, size):
            gain = -self._value(p, x)
            self.solved = self._maximise(self.n_placed)
            if self.solved:
                self.solved = self.n_fixed == 0
                gain += self.top
                for done in range(self.n_placed - 1, -1, -1):
                    a = self.order[done]
                    at = 0
                    for k in range(self.n_near[a]):
                        i = self.near[a, k]
                        at = at * self.n_cand[self.var[i]] + self.chosen[i]
                    self.chosen[a] = self.choice[self.best_start[a] + at]
                    v = self.var[a]
                    x[v] = self.cand[p.first[v] + self.chosen[a]]
            else:
                gain = 0.0
        for a in range(size):
            self.local[window[a]] = -1
        return gain

    cdef double _value(self, MAPProblem p, const int32_t* x) noexcept nogil:
        """Sum of the entries of all parts at a labeling."""
        cdef Py_ssize_t i, k, at, a, v
        cdef double total = 0.0
        for i in range(self.n_parts):
            at = 0
            for k in range(self.parts[i].count):
                v = self.var[self.parts[i].scope[k]]
                a = 0
                while self.cand[p.first[v] + a] != x[v]:
                    a += 1
                at = at * self.n_cand[v] + a
            total += self.arena[self.parts[i].start + at]
        return total
