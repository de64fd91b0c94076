"""What taggers of series are compared with: frames by themselves, and hmmlearn."""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

# Added to variances, as series may have constant columns.
_FLOOR = 1e-3


class Frames:
    """Logistic regression of each position."""

    def fit(self, X, y):
        model = LogisticRegression(max_iter=1000)
        self.model_ = make_pipeline(StandardScaler(), model)
        self.model_.fit(np.concatenate(X), np.concatenate(y))
        return self

    def predict(self, X):
        return [self.model_.predict(x) for x in X]


class HiddenMarkov:
    """A Gaussian model of hmmlearn, whose parameters are counts and moments.

    Parameters
    ----------
    most_states : int, default=1
        Each label is a chain of so many states at most, which makes its durations an
        Erlang distribution with the mean and the variance of the observed ones. One
        state makes them geometric.
    """

    def __init__(self, most_states=1):
        self.most_states = most_states

    def fit(self, X, y):
        from hmmlearn.hmm import GaussianHMM

        self.classes_, codes = np.unique(np.concatenate(y), return_inverse=True)
        codes = np.split(codes, np.cumsum([len(each) for each in y])[:-1])
        states, follows, first = self._durations(codes)
        frames, labels = np.concatenate(X), np.concatenate(codes)
        model = GaussianHMM(len(states), covariance_type="full", init_params="")
        model.startprob_, model.transmat_ = first, follows
        moments = [
            (frames[labels == k].mean(0), np.cov(frames[labels == k].T))
            for k in range(len(self.classes_))
        ]
        floor = _FLOOR * np.eye(frames.shape[1])
        model.means_ = np.array([moments[k][0] for k in states])
        model.covars_ = np.array([moments[k][1] + floor for k in states])
        self.model_, self.states_ = model, states
        return self

    def _durations(self, codes):
        """Label of each state, probabilities of transitions and of first states."""
        n = len(self.classes_)
        runs, counts, starts = [[] for _ in range(n)], np.ones((n, n)), np.ones(n)
        for each in codes:
            cuts = np.flatnonzero(np.diff(each)) + 1
            bounds = np.r_[0, cuts, len(each)]
            labels = each[bounds[:-1]]
            starts[labels[0]] += 1
            np.add.at(counts, (labels[:-1], labels[1:]), 1)
            for label, length in zip(labels, np.diff(bounds), strict=True):
                runs[label].append(length)
        np.fill_diagonal(counts, 0.0)
        counts /= counts.sum(axis=1, keepdims=True)
        states, stay = [], []
        for k, lengths in enumerate(runs):
            mean, variance = np.mean(lengths), max(np.var(lengths), _FLOOR)
            order = int(np.clip(round(mean**2 / variance), 1, self.most_states))
            states += [k] * order
            stay += [max(1.0 - order / mean, 0.0)] * order
        states, stay = np.array(states), np.array(stay)
        begins = np.flatnonzero(np.r_[True, np.diff(states) > 0])
        follows = np.diag(stay)
        for state, label in enumerate(states):
            is_last = state + 1 == len(states) or states[state + 1] != label
            if is_last:
                follows[state, begins] += (1.0 - stay[state]) * counts[label]
            else:
                follows[state, state + 1] += 1.0 - stay[state]
        first = np.zeros(len(states))
        first[begins] = starts / starts.sum()
        return states, follows / follows.sum(axis=1, keepdims=True), first

    def predict(self, X):
        return [self.classes_[self.states_[self.model_.predict(x)]] for x in X]
