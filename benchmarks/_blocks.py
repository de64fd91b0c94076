"""Problems of the benchmarks of training in blocks, and an executor that measures."""

import pickle
import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from _chunking import chunking_data

from sksstruct import ChainCRF
from sksstruct.datasets import fetch_ocr_letters
from sksstruct.feature_extraction import SequenceVectorizer
from sksstruct.solvers.partitioned.executors import Serial

PROBLEMS = {
    "ocr": {"alpha": 0.001, "loss_normalization": "sequence"},
    "conll2000": {"loss": "hinge"},
    "likelihood": {"loss": "log"},
}
TOL = 0.01


def load(problem, data_home=None):
    """Sequences and labels of a problem."""
    if problem == "ocr":
        data = fetch_ocr_letters("rest", data_home=data_home)
        # in random order: neighbors are the same words, in different hands
        order = np.random.RandomState(0).permutation(len(data.X))
        return [data.X[i] for i in order], [data.y[i] for i in order]
    features, y = chunking_data("train", data_home)
    return SequenceVectorizer().fit_transform(features), y


def tagger(problem, solver, n_jobs=1):
    """The estimator of a problem."""
    return ChainCRF(
        solver=solver, tol=TOL, random_state=0, n_jobs=n_jobs, **PROBLEMS[problem]
    )


@dataclass
class Advance:
    """A round of one block.

    Parameters
    ----------
    known : bool
        Whether of known labelings.
    visits : int
        Number of visits.
    seconds : float
        CPU seconds.
    nbytes : int
        Bytes of its change.
    before : int
        Bytes of the sum of all changes of the round before, which the first block that
        a process calls brings its weights up to.
    """

    known: bool
    visits: int
    seconds: float
    nbytes: int
    before: int


class Meter(Serial):
    """Blocks one after the other, and what each call of them took.

    Parameters
    ----------
    limit : float, default=inf
        CPU seconds after which the fit is interrupted.

    Attributes
    ----------
    calls : dict of str to int
        Number of calls of each method; "advance" are the rounds.
    seconds : dict of str to float
        CPU seconds of the blocks, by method.
    advances : list of Advance
        All rounds of all blocks.
    adding : float
        CPU seconds in which changes were added.
    added : int
        Bytes of the changes that were added.
    sums : list of int
        Bytes of the sum of all changes of each round.
    state_bytes : int
        Bytes of the states of all blocks.
    stopped : bool
        Whether the limit was reached.
    """

    def __init__(self, limit=np.inf):
        super().__init__()
        self.end = time.process_time() + limit
        self.calls, self.seconds = defaultdict(int), defaultdict(float)
        self.advances, self.sums = [], []
        self.adding, self.added, self.state_bytes = 0.0, 0, 0
        self.stopped = False

    def call(self, method, *common, blocks=None, each=None, total=None):
        if time.process_time() > self.end:
            self.stopped = True
            raise KeyboardInterrupt
        self.calls[method] += 1
        if total is None:
            values = super().call(method, *common, blocks=blocks, each=each)
            if method == "state":
                self.state_bytes = len(pickle.dumps(values, protocol=5))
            return values
        values = {}
        for number in range(self.n_blocks):
            values[number], change = self._one(number, method, common, each)
            started = time.process_time()
            total.add(change, number)
            self.adding += time.process_time() - started
            self.added += self.advances[-1].nbytes
        self.sums.append(sum(each.nbytes for each in total.nodes.values()))
        return values

    def _one(self, number, method, common, each):
        started = time.process_time()
        value = super()._one(number, method, common, each)
        seconds = time.process_time() - started
        self.seconds[method] += seconds
        if method == "advance":
            (step, change), turn = value, common[2]
            before = self.sums[-1] if self.sums and number == 0 else 0
            row = Advance(turn.known, step.visits, seconds, change.nbytes, before)
            self.advances.append(row)
        return value
