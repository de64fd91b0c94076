"""Lives of estimators: after any calls they are fitted as a new one would be, or not.

A life is a list of calls that is drawn as a whole. The steps of hypothesis's own state
machines are drawn while they run: a crash would take the draws with it, and could
neither be told nor made small.
"""

import copy
import pickle

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sksstruct import (
    ChainCRF,
    LinearSSVC,
    MultilabelPairwise,
    SSVMClassifier,
    SSVMPathCV,
)
from sksstruct.estimators._callbacks import PassCallbacks
from tests.fuzz._draws import decoded
from tests.fuzz.estimators import SOLVERS


def no_score(estimator, X, y):
    """A scorer that finds nothing finite."""
    return np.nan


ERRORS = (ValueError, TypeError)


def _rows(n, d, seed):
    return np.random.default_rng(seed).standard_normal((n, d)).round(2)


def _tables():
    """Good and bad data of flat estimators: rows, and three columns of numbers."""
    X, Z = _rows(12, 3, 0), _rows(10, 2, 1)
    x, z = (np.arange(len(rows)) % 3 for rows in (X, Z))
    bad = X.copy()
    bad[5, 1] = np.nan
    broken = sparse.csr_array(X)
    broken.indices[0] = 10**6
    good = [(X, x), (Z, z + 4), (sparse.csr_array(Z), z), (X[::-1], x)]
    return good, [(bad, x), (X, x[:-1]), (X, x * np.nan), (broken, x), (X, None)]


def _sequences():
    (X, Z, *_), _ = _tables()

    def cut(table, ends):
        starts = [0, *ends[:-1]]
        rows, labels = table
        return tuple(
            [part[a:b] for a, b in zip(starts, ends, strict=True)]
            for part in (rows, labels)
        )

    X, y = cut(X, (4, 5, 9, 12))
    Z, z = cut(Z, (5, 8, 10))
    half = [[None, *row[1:]] if len(row) > 1 else row for row in y]
    bad = [x.copy() for x in X]
    bad[2][0, 0] = np.inf
    good = [(X, y), (Z, z), ([sparse.csr_array(x) for x in X], y), (X[:2], y[:2])]
    unknown, short = [[None] * len(row) for row in y], [row[:1] for row in y]
    wrong = [(bad, y), (X, y[:-1]), (X, unknown), (X, short), (X[:1] + Z, y[:1] + z)]
    return [*good, (X, half)], wrong


def _mapped(tables, change):
    return tuple(
        [(X, None if y is None else change(y)) for X, y in some] for some in tables
    )


FLAT = _tables()
DATA = {
    "chain": _sequences(),
    "classes": FLAT,
    "binary": _mapped(FLAT, lambda y: np.where(np.isnan(y), y, y > y[0])),
    "sets": _mapped(FLAT, lambda y: np.ceil((y[:, None] + np.arange(3)) % 3 / 2)),
    "path": FLAT,
}
# what may be set, the first being the default here
CHOICES = {
    "chain": {
        "loss": ["hinge", "log"], "warm_start": [False, True], "solver": None,
        "alpha": [0.5, 0.05, "auto"], "boundary": [True, False],
        "fit_intercept": [True, False], "l1_ratio": [0.0, 0.5], "max_iter": [20, 3],
        "early_stopping": [False, True], "transition_features": [None, "all"],
        "tol": [1e-2, 0.0],
    },
    "classes": {
        "loss": ["hinge", "log"], "warm_start": [False, True], "alpha": [0.5, 0.05],
        "solver": None, "max_iter": [20, 3], "class_weight": [None, "balanced"],
    },
    "binary": {
        "alpha": [0.5, 0.05], "max_iter": [20, 3], "fit_intercept": [True, False],
        "solver": ["auto", "bcfw", "bmrm", "pragam", "dcd", "ssg"],
    },
    "sets": {
        "alpha": [0.5, 0.05], "max_iter": [20, 3], "pairs": ["auto", "all", "none"],
        "loss": ["hinge", "squared_hinge", "log", "structured_hinge"],
        "interaction_scaling": [1.0, 0.5], "inference": ["auto", "exact"],
    },
    "path": {
        "method": ["exact", "heuristic", "grid"], "epsilon": [0.5, 0.2],
        "alpha_min": [0.3, 0.1], "refit": [True, False], "relative": [True, False],
        "estimator__max_iter": [50, 2], "scoring": [None, no_score],
    },
}  # fmt: skip
WRONG = {"alpha": -1.0, "max_iter": 0, "tol": "x", "solver": "no", "epsilon": -1.0,
         "loss": "no", "method": "no", "random_state": "x"}  # fmt: skip
MAKE = {
    "chain": lambda: ChainCRF(random_state=0),
    "classes": lambda: SSVMClassifier("multiclass", random_state=0),
    "binary": lambda: LinearSSVC(random_state=0),
    "sets": lambda: MultilabelPairwise(random_state=0),
    "path": lambda: SSVMPathCV(
        SSVMClassifier("multiclass", alpha=0.5, max_iter=50, random_state=0), cv=2
    ),
}
METHODS = (
    "predict",
    "decision_function",
    "predict_proba",
    "predict_marginals",
    "score",
)
ONLY_CHAINS = ("sparsify", "densify", "cast", "partial_fit", "partial_fit", "bad_part")
STEPS = ("fit", "fit", "fit", "set", "set", "bad_fit", "wrong", "interrupt", "predict",
         "clone", "pickle", "copy")  # fmt: skip


def _choices(kind, name, values):
    if name != "solver" or kind == "binary":
        return CHOICES[kind][name]
    return SOLVERS[values.get("loss", "hinge")]


def _step(draws, kind, values):
    name = draws.choice(STEPS + ONLY_CHAINS if kind == "chain" else STEPS)
    if name == "set":
        key = draws.choice(sorted(CHOICES[kind]))
        values[key] = draws.choice(_choices(kind, key, values))
        if key == "loss" and "solver" in CHOICES[kind] and kind != "binary":
            values["solver"] = "auto"
            return name, {key: values[key], "solver": "auto"}
        return name, {key: values[key]}
    if name == "wrong":
        return name, draws.choice(sorted(WRONG.keys() & MAKE[kind]().get_params()))
    if name == "interrupt":
        return name, draws.integer(0, 4), draws.integer(0, 3)
    if name == "predict":
        return name, draws.choice(METHODS), draws.integer(0, 4)
    if name in ("fit", "bad_fit", "partial_fit", "bad_part"):
        return name, draws.integer(0, 4)
    return (name,)


def _case(draws):
    """A kind of estimator, and what is called, step by step."""
    kind = draws.choice(["chain", "chain", "classes", "binary", "sets", "path"])
    values = {}
    n_steps = draws.integer(1, 3 if kind == "path" else 10)
    return kind, [_step(draws, kind, values) for _ in range(n_steps)]


cases = decoded(64, _case)


# ---- what an estimator knows, as bytes that can be compared ----

# measured, or counted over a life
_FREE = {"seconds", "callbacks", "refit_time_"}
_FREE |= {f"{how}_{what}_time" for how in ("mean", "std") for what in ("fit", "score")}


def _bits(value):
    """The value without what may differ: times, and where arrays are."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return [_bits(part) for part in value]
        return value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()
    if sparse.issparse(value):
        return [_bits(np.asarray(p)) for p in (value.data, value.indices, value.indptr)]
    if isinstance(value, dict):
        return {key: _bits(part) for key, part in value.items() if key not in _FREE}
    if isinstance(value, (list, tuple)):
        return [_bits(part) for part in value]
    if isinstance(value, float):
        return np.float64(value).tobytes()
    if hasattr(value, "__dict__") and not callable(value):
        return type(value).__name__, _bits(vars(value))
    return repr(value)


def fitted(estimator):
    """Fitted attributes as bytes, by name."""
    found = {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and not name.startswith("__") and name not in _FREE
    }
    return {name: _bits(value) for name, value in found.items()}


def check_whole(estimator):
    """An estimator has all attributes of a fit, which agree, or none of them."""
    names = {name for name in vars(estimator) if name.endswith("_")}
    if not names:
        return
    if isinstance(estimator, SSVMPathCV):
        assert {"paths_", "edges_", "scores_", "alpha_", "best_score_"} <= names, names
        # an interrupt while the best one is trained leaves what there is
        if "best_estimator_" in names:
            check_whole(estimator.best_estimator_)
        return
    d = estimator.n_features_in_
    assert estimator.coef_.shape[-1] == d, (estimator.coef_.shape, d)
    values = estimator.coef_
    values = values.data if sparse.issparse(values) else values
    assert np.isfinite(values).all()
    if "objective_" in names:
        assert {"dual_gap_", "n_iter_", "history_", "solver_"} <= names, names
        assert len(estimator.history_["primal"]) or estimator.n_iter_ == 0


# ---- steps ----

# fits of new estimators, which others are compared with
_NEW = {}


def _options(data, k):
    return data[k % len(data)]


class Life:
    """An estimator, and the steps of its life."""

    def __init__(self, kind):
        self.kind, self.estimator = kind, MAKE[kind]()
        first = {key: _choices(kind, key, {})[0] for key in CHOICES[kind]}
        self.estimator.set_params(**first)
        self.good, self.bad = DATA[kind]

    def _new(self, k):
        """What a new estimator of the same parameters knows after a fit."""
        key = self.kind, repr(sorted(self.estimator.get_params().items(), key=str)), k
        if key not in _NEW:
            new = clone(self.estimator)
            try:
                new.fit(*_options(self.good, k))
                _NEW[key] = fitted(new)
            except ERRORS as error:
                check_unfitted(new)
                _NEW[key] = str(error)
        return _NEW[key]

    def fit(self, k):
        before, warm = fitted(self.estimator), self._is_warm()
        expected = self._new(k)
        try:
            self.estimator.fit(*_options(self.good, k))
        except ERRORS as error:
            assert fitted(self.estimator) == before, "a failed fit changed it"
            assert warm or str(error) == expected, (str(error), expected)
            return
        assert not isinstance(expected, str), f"only a new one fails: {expected}"
        if not warm:
            found = fitted(self.estimator)
            differ = {
                n for n in found.keys() | expected if found.get(n) != expected.get(n)
            }
            assert not differ, f"differs from a new one: {differ}"

    def _is_warm(self):
        return getattr(self.estimator, "warm_start", False)

    def _must_fail(self, call):
        before = fitted(self.estimator)
        try:
            call()
        except ERRORS:
            assert fitted(self.estimator) == before, "a failed fit changed it"
            return
        raise AssertionError("bad data were accepted")

    def bad_fit(self, k):
        self._must_fail(lambda: self.estimator.fit(*_options(self.bad, k)))

    def wrong(self, name):
        # what a path fits has its own
        now = self.estimator.get_params()[name]
        self.estimator.set_params(**{name: WRONG[name]})
        self._must_fail(lambda: self.estimator.fit(*self.good[0]))
        self.estimator.set_params(**{name: now})

    def set(self, values):
        self.estimator.set_params(**values)

    def interrupt(self, k, after):
        """Interrupt a fit after some passes."""
        called, count = PassCallbacks.__call__, [0]

        def interrupted(callbacks, *arguments):
            count[0] += 1
            if count[0] > after:
                raise KeyboardInterrupt
            return called(callbacks, *arguments)

        before, failed = fitted(self.estimator), False
        PassCallbacks.__call__ = interrupted
        try:
            self.estimator.fit(*_options(self.good, k))
        except ERRORS:
            failed = True
        except KeyboardInterrupt:
            # searches for parameters end before they have trained
            if isinstance(self.estimator, SSVMPathCV):
                return
            now = fitted(self.estimator)
            assert now, "interrupted, and nothing can be used"
            self.estimator.predict(_options(self.good, k)[0])
        finally:
            PassCallbacks.__call__ = called
        if failed:
            assert fitted(self.estimator) == before, "a failed fit changed it"

    def predict(self, method, k):
        X, y = _options(self.good, k)
        call = getattr(self.estimator, method, None)
        if call is None:
            return
        before = fitted(self.estimator)
        try:
            answer = call(X, y) if method == "score" else call(X)
        except (NotFittedError, *ERRORS) as error:
            self._check_refusal(X, y, error)
        else:
            self._check_answer(method, X, answer)
        assert fitted(self.estimator) == before, f"{method} changed it"

    def _check_refusal(self, X, y, error):
        """An error has its reason: nothing was fitted, or on other columns."""
        final = getattr(self.estimator, "best_estimator_", self.estimator)
        if not hasattr(final, "n_features_in_"):
            assert isinstance(error, NotFittedError), error
            return
        first = X[0] if self.kind == "chain" else X
        wide = first.shape[1] != final.n_features_in_
        odd = self.kind == "chain" and any(None in list(row) for row in y)
        assert wide or odd or "label" in str(error) or "target" in str(error), error

    def _check_answer(self, method, X, answer):
        final = getattr(self.estimator, "best_estimator_", self.estimator)
        parts = answer if self.kind == "chain" else [answer]
        if method == "predict":
            if hasattr(final, "classes_") and self.kind != "sets":
                known = set(final.classes_.tolist())
                assert all(set(np.asarray(p).tolist()) <= known for p in parts), answer
        elif method in ("predict_proba", "predict_marginals"):
            for part in parts:
                # of sequences, a dict for each position
                rows = [
                    [*row.values()] if isinstance(row, dict) else row for row in part
                ]
                values = np.array(rows, dtype=np.float64)
                assert (values >= 0).all() and (values <= 1 + 1e-9).all()
        elif method == "score":
            assert np.isfinite(answer)

    def clone(self):
        self.estimator = clone(self.estimator)
        check_unfitted(self.estimator)

    def pickle(self):
        self._again(pickle.loads(pickle.dumps(self.estimator)))

    def copy(self):
        self._again(copy.deepcopy(self.estimator))

    def _again(self, other):
        assert fitted(other) == fitted(self.estimator), "another one came back"
        self.estimator = other

    def sparsify(self):
        self._changed(lambda: self.estimator.sparsify(), same=True)

    def densify(self):
        self._changed(lambda: self.estimator.densify(), same=True)

    def cast(self):
        self._changed(lambda: self.estimator.cast("float32"), same=False)

    def _changed(self, call, same):
        if not hasattr(self.estimator, "coef_"):
            try:
                call()
            except NotFittedError:
                return
            raise AssertionError("not fitted, and no error")
        before = self.estimator.coef_
        call()
        after = self.estimator.coef_
        before, after = (
            c.toarray() if sparse.issparse(c) else c for c in (before, after)
        )
        assert not same or np.array_equal(before, after)

    def partial_fit(self, k):
        X, y = _options(self.good, k)
        before = fitted(self.estimator)
        classes = None
        if not hasattr(self.estimator, "classes_"):
            classes = sorted({label for row in y for label in row if label is not None})
        try:
            self.estimator.partial_fit(X, y, classes=classes)
        except ERRORS:
            assert fitted(self.estimator) == before, "a failed partial_fit changed it"

    def bad_part(self, k):
        X, y = _options(self.bad, k)
        classes = None if hasattr(self.estimator, "classes_") else [0, 1, 2, 4, 5, 6]
        self._must_fail(lambda: self.estimator.partial_fit(X, y, classes=classes))


def check_unfitted(estimator):
    """An estimator that was not fitted, or whose first fit failed."""
    names = [name for name in vars(estimator) if name.endswith("_")]
    assert not names, f"half-fitted: {names}"


def check(case):
    """Live a life; after each step the estimator is whole."""
    kind, steps = case
    life = Life(kind)
    for name, *arguments in steps:
        getattr(life, name)(*arguments)
        check_whole(life.estimator)
