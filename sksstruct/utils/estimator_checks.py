"""The scikit-learn contract for estimators on ragged input.

scikit-learn's own suite skips nearly all checks if X is not 2-D
(``input_tags.two_d_array = False``); these checks restate its rules for lists of
sequences. Each check raises AssertionError, or the estimator's own error.
"""

import pickle
import re
import warnings
from copy import deepcopy

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline

__all__ = ["CHECKS", "check_ragged_estimator"]

# Number of sequences in each check, so few that fitting takes milliseconds.
_N = 24


def _data(seed=0, dtype=np.float64):
    rng = np.random.RandomState(seed)
    lengths = rng.randint(1, 6, size=_N)
    y = [rng.randint(3, size=n) for n in lengths]
    y[0] = np.array([0, 1, 2, 1])
    X = [
        (np.eye(3)[labels] + 0.3 * rng.normal(size=(len(labels), 3))).astype(dtype)
        for labels in y
    ]
    return X, y


def _fresh(estimator):
    estimator = clone(estimator)
    if "random_state" in estimator.get_params():
        estimator.set_params(random_state=0)
    return estimator


def _fit(estimator, X, y, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, y, **kwargs)


def _precise(estimator):
    """Return a clone that trains nearly to the optimum, by its tol and max_iter."""
    estimator = _fresh(estimator)
    for name in estimator.get_params(deep=True):
        if name == "tol" or name.endswith("__tol"):
            estimator.set_params(**{name: 1e-6})
        if name == "max_iter" or name.endswith("__max_iter"):
            estimator.set_params(**{name: 20_000})
    return estimator


def _assert_same(first, second, message):
    assert len(first) == len(second), message
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=message)


def check_constructor_only_assigns(estimator):
    """The constructor stores its parameters unchanged, and `clone` copies them."""
    twin = clone(estimator)
    for name, value in estimator.get_params(deep=False).items():
        assert name in vars(twin), f"{name} is not an attribute after clone"
        assert repr(vars(twin)[name]) == repr(value), f"clone changed {name}"
    extra = set(vars(twin)) - set(estimator.get_params(deep=False))
    assert not extra, f"the constructor sets more than its parameters: {sorted(extra)}"


def check_parameters_untouched(estimator):
    """Fitting changes neither the parameters nor those of nested objects."""
    estimator = _fresh(estimator)
    old_params = deepcopy(estimator.get_params(deep=True))
    _fit(estimator, *_data())
    after = estimator.get_params(deep=True)
    assert old_params.keys() == after.keys()
    for name, value in old_params.items():
        assert repr(value) == repr(after[name]), f"fit changed {name}"


def check_fit_returns_self(estimator):
    """Fitting returns the estimator, and fitted state ends in an underscore."""
    estimator = _fresh(estimator)
    public = {name for name in vars(estimator) if not name.startswith("_")}
    assert _fit(estimator, *_data()) is estimator
    fitted = {name for name in vars(estimator) if not name.startswith("_")} - public
    wrong = [name for name in fitted if not name.endswith("_")]
    assert fitted and not wrong, f"fitted attributes without underscore: {wrong}"


def check_unfitted(estimator):
    """Predicting before fit raises NotFittedError."""
    X, _ = _data()
    for name in ("predict", "decision_function", "score"):
        if hasattr(estimator, name):
            arguments = _data() if name == "score" else (X,)
            try:
                getattr(_fresh(estimator), name)(*arguments)
            except NotFittedError:
                continue
            raise AssertionError(f"{name} before fit did not raise NotFittedError")


def check_output_shape(estimator):
    """Predictions have a label per position; n_features_in_ counts the columns."""
    X, y = _data()
    estimator = _fit(_fresh(estimator), X, y)
    assert estimator.n_features_in_ == 3
    predicted = estimator.predict(X)
    assert [len(row) for row in predicted] == [len(row) for row in y]
    assert set(np.concatenate(predicted)) <= set(estimator.classes_.tolist())
    scores = estimator.decision_function(X)
    assert scores.shape == (len(X),) and np.isfinite(scores).all()


def check_fit_twice(estimator):
    """Fitting an object again gives the same scores, also after a fit to other data."""
    X, y = _data()
    estimator = _fit(_fresh(estimator), X, y)
    first = estimator.decision_function(X)
    _fit(estimator, *_data(seed=1))
    _fit(estimator, X, y)
    np.testing.assert_array_equal(first, estimator.decision_function(X))


def check_random_state_and_n_jobs(estimator):
    """Equal seeds give bitwise equal results, whatever n_jobs is."""
    X, y = _data()
    results = []
    for n_jobs in (None, 1, 2, 3):
        candidate = _fresh(estimator)
        if "n_jobs" in candidate.get_params():
            candidate.set_params(n_jobs=n_jobs)
        results.append(_fit(candidate, X, y).decision_function(X))
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


def check_pickle(estimator):
    """A pickled estimator predicts the same."""
    X, y = _data()
    estimator = _fit(_fresh(estimator), X, y)
    twin = pickle.loads(pickle.dumps(estimator))
    _assert_same(estimator.predict(X), twin.predict(X), "pickle changed predictions")
    np.testing.assert_array_equal(
        estimator.decision_function(X), twin.decision_function(X)
    )


def check_sample_order(estimator):
    """Predictions of a sequence do not depend on other sequences or their order."""
    X, y = _data()
    estimator = _fit(_fresh(estimator), X, y)
    together = estimator.predict(X)
    _assert_same(
        estimator.predict(X[::-1])[::-1], together, "order changes predictions"
    )
    alone = [estimator.predict([x])[0] for x in X]
    _assert_same(alone, together, "other sequences change predictions")


def check_read_only(estimator):
    """Read-only arrays are accepted, and no input is changed."""
    X, y = _data()
    copies = [x.copy() for x in X]
    for array in (*X, *y):
        array.flags.writeable = False
    estimator = _fit(_fresh(estimator), X, y)
    estimator.predict(X)
    _assert_same(X, copies, "the input was changed")


def check_input_forms(estimator):
    """Lists, tuples, object arrays, nested lists, CSR and other float types agree."""
    X, y = _data()
    expected = _fit(_precise(estimator), X, y).decision_function(X)
    boxed = np.empty(len(X), dtype=object)
    boxed[:] = X
    forms = {
        "tuple": tuple(X),
        "object array": boxed,
        "nested lists": [x.tolist() for x in X],
        "CSR": [sparse.csr_array(x) for x in X],
        "Fortran order": [np.asfortranarray(x) for x in X],
    }
    for name, form in forms.items():
        candidate = _fit(_precise(estimator), form, [row.tolist() for row in y])
        np.testing.assert_allclose(
            candidate.decision_function(form), expected, atol=5e-3, err_msg=name
        )


def check_dtypes(estimator):
    """Single precision, integers and booleans are accepted."""
    for dtype in (np.float32, np.int64, np.int8, bool):
        X, y = _data()
        X = [(4 * x).astype(dtype) for x in X]
        predicted = _fit(_fresh(estimator), X, y).predict(X)
        assert len(predicted) == len(X)


def check_sample_weight(estimator):
    """At the optimum, weight 2 equals a duplicate, and weight 0 removal."""
    X, y = _data()
    weight = np.ones(len(X))
    weight[:4], weight[4:8] = 2.0, 0.0
    weighted = _fit(_precise(estimator), X, y, sample_weight=weight)
    used = [i for i in range(len(X)) if weight[i]] + [0, 1, 2, 3]
    repeated = _fit(
        _precise(estimator),
        [X[i] for i in used],
        [y[i] for i in used],
    )
    np.testing.assert_allclose(
        weighted.decision_function(X), repeated.decision_function(X), atol=5e-3
    )


def check_string_labels(estimator):
    """Labels may be strings, or any hashable values."""
    X, y = _data()
    codes = _fit(_fresh(estimator), X, y).predict(X)
    for names in (["a", "b", "c"], [("x", 1), ("y", 2), ("z", 3)], [2.5, 3.5, 4.5]):
        renamed = [[names[k] for k in row] for row in y]
        predicted = _fit(_fresh(estimator), X, renamed).predict(X)
        _assert_same(
            [[names[k] for k in row] for row in codes],
            [row.tolist() for row in predicted],
            f"labels {names}",
        )


def check_model_selection(estimator):
    """The estimator takes lists in pipelines, cross-validation and grid search."""
    X, y = _data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scores = cross_val_score(_fresh(estimator), X, y, cv=KFold(3))
        assert scores.shape == (3,) and np.isfinite(scores).all()
        pipeline = Pipeline([("tagger", _fresh(estimator))])
        search = GridSearchCV(pipeline, {"tagger__alpha": [0.01, 0.1]}, cv=3)
        search.fit(X, [row.tolist() for row in y])
        # predictions are one array per sequence, even if all have the same length
        for size in (1, None):
            part_X, part_y = [x[:size] for x in X], [row[:size] for row in y]
            predicted = cross_val_predict(_fresh(estimator), part_X, part_y, cv=3)
            assert predicted.shape == (len(X),), "predict must return an object array"
            assert [len(row) for row in predicted] == [len(row) for row in part_y]
    assert len(search.predict(X)) == len(X)


def check_empty_sequences(estimator):
    """Sequences without positions do not count in training, and get no labels."""
    X, y = _data()
    weight = np.arange(1.0, len(X) + 1.0)
    expected = _fit(_fresh(estimator), X, y, sample_weight=weight)
    # -1 is an empty sequence, with the largest weight
    order = [-1, *range(3), -1, *range(3, len(X)), -1]
    more_X = [X[i] if i >= 0 else X[0][:0] for i in order]
    more_y = [y[i] if i >= 0 else y[0][:0] for i in order]
    with_empty = _fit(_fresh(estimator), more_X, more_y, sample_weight=weight[order])
    scores = expected.decision_function(X)
    np.testing.assert_array_equal(with_empty.decision_function(X), scores)
    np.testing.assert_array_equal(
        with_empty.decision_function(more_X), [scores[i] * (i >= 0) for i in order]
    )
    predicted = with_empty.predict([*more_X, []])
    assert [len(row) for row in predicted] == [len(row) for row in more_y] + [0]
    assert with_empty.score(more_X, more_y) == expected.score(X, y)
    assert [len(row) for row in with_empty.predict([X[0][:0]])] == [0]


def check_bad_input(estimator):
    """Invalid data raise a ValueError or TypeError that names the argument."""
    X, y = _data()

    def replaced(items, i, item):
        return [*items[:i], item, *items[i + 1 :]]

    nan, infinite = X[2].copy(), X[2].copy()
    nan[0, 0], infinite[0, 0] = np.nan, np.inf
    cases = {
        "no sequences": ([], [], r"\bX is empty"),
        "no positions": ([x[:0] for x in X], [row[:0] for row in y], r"\bX has no"),
        "labels of no position": (replaced(X, 2, np.zeros((0, 3))), y, r"X\[2\]"),
        "fewer labels": (X, replaced(y, 2, y[2][:-1]), r"y\[2\]"),
        "fewer label sequences": (X, y[:-1], r"\by (has|must have)"),
        "other width": (replaced(X, 2, np.zeros((len(y[2]), 4))), y, r"X\[2\]"),
        "NaN": (replaced(X, 2, nan), y, r"X\[2\]"),
        "infinity": (replaced(X, 2, infinite), y, r"X\[2\]"),
        "1-D item": (replaced(X, 2, X[2][:, 0]), y, r"X\[2\]"),
        "3-D item": (replaced(X, 2, X[2][None]), y, r"X\[2\]"),
        "object dtype": (replaced(X, 2, X[2].astype(object)), y, r"X\[2\]"),
        "strings": (replaced(X, 2, X[2].astype(str)), y, r"X\[2\]"),
        "complex": (replaced(X, 2, X[2] * 1j), y, r"X\[2\]"),
        "single class": (X, [np.zeros(len(row)) for row in y], r"\by has"),
        "dicts": ([[{"a": 1}] * len(row) for row in y], y, r"X\[0\] has a dict"),
        "2-D X": (np.vstack(X), np.concatenate(y), r"\bX is"),
        "one sparse item": (replaced(X, 2, sparse.csr_array(X[2])), y, r"X\[2\]"),
        "missing label": (X, replaced(y, 2, [None] * len(y[2])), r"y\[2\]"),
        "NaN label": (X, replaced(y, 2, [np.nan] * len(y[2])), r"y\[2\]"),
        "list as label": (X, replaced(y, 2, [[1]] * len(y[2])), r"y\[2\]"),
        "labels as string": (X, replaced(y, 2, "0" * len(y[2])), r"y\[2\]"),
    }
    for name, (bad_X, bad_y, pattern) in cases.items():
        candidate = _fresh(estimator)
        old_vars = dict(vars(candidate))
        try:
            _fit(candidate, bad_X, bad_y)
        except (ValueError, TypeError) as error:
            assert re.search(pattern, str(error)), f"{name}: {error}"
        else:
            raise AssertionError(f"{name}: no error")
        assert vars(candidate).keys() == old_vars.keys(), f"{name}: half-done fit"
    fitted = _fit(_fresh(estimator), X, y)
    for bad in (np.zeros((2, 4)), nan):
        try:
            fitted.predict([bad])
        except ValueError:
            continue
        raise AssertionError("predict accepts bad features")


def check_bad_weights(estimator):
    """Weights must match X, be finite and not negative, and not all be zero."""
    X, y = _data()
    for weight in (
        -np.ones(len(X)),
        np.zeros(len(X)),
        np.ones(len(X) - 1),
        np.full(len(X), np.nan),
        np.ones((len(X), 2)),
    ):
        try:
            _fit(_fresh(estimator), X, y, sample_weight=weight)
        except ValueError:
            continue
        raise AssertionError(f"sample_weight={weight!r:.40} is accepted")


def check_legal_corners(estimator):
    """Unusual valid data can be fitted, such as a single sequence or zero features."""
    X, y = _data()
    cases = {
        "length 1": ([x[:1] for x in X], [row[:1] for row in y]),
        "one sequence": ([X[0]], [y[0]]),
        "zero features": ([np.zeros_like(x) for x in X], y),
        "duplicates": ([X[0]] * 5, [y[0]] * 5),
        "label met once": (X, [*y[:-1], np.full(len(y[-1]), 9)]),
    }
    for name, (legal_X, legal_y) in cases.items():
        predicted = _fit(_fresh(estimator), legal_X, legal_y).predict(legal_X)
        assert len(predicted) == len(legal_X), name


CHECKS = (
    check_constructor_only_assigns,
    check_parameters_untouched,
    check_fit_returns_self,
    check_unfitted,
    check_output_shape,
    check_fit_twice,
    check_random_state_and_n_jobs,
    check_pickle,
    check_sample_order,
    check_read_only,
    check_input_forms,
    check_dtypes,
    check_sample_weight,
    check_string_labels,
    check_model_selection,
    check_empty_sequences,
    check_bad_input,
    check_bad_weights,
    check_legal_corners,
)


def check_ragged_estimator(estimator: BaseEstimator) -> None:
    """Run all checks on a sequence tagger.

    Parameters
    ----------
    estimator : estimator object
        The tagger, of which only clones are fitted.

    Raises
    ------
    AssertionError
        If a check fails.

    Examples
    --------
    >>> from sksstruct import ChainCRF
    >>> from sksstruct.utils.estimator_checks import check_ragged_estimator
    >>> check_ragged_estimator(ChainCRF())
    """
    for check in CHECKS:
        check(estimator)
