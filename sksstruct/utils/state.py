"""States of objects, as pickled, with the version that wrote them."""

import warnings

import numpy as np

from sksstruct.utils._names import FeatureNames
from sksstruct.utils.version import __version__

# Key of the package's version in a state, like scikit-learn's `_sklearn_version`.
_VERSION = "_sksstruct_version"


class Versioned:
    """Mixin for objects whose pickles are read by later versions.

    States name the version that wrote them; loading a state of another version gives
    scikit-learn's `InconsistentVersionWarning`. A class whose state is more than
    parameters and results defines what is written in `_state`, and checks what is read
    in `_restore`. Names of features are written as arrays of numbers, as each string
    takes a hundred bytes or more in a skops file.
    """

    def __getstate__(self):
        state = {**self._state(), _VERSION: __version__}
        return {name: _written(value) for name, value in state.items()}

    def __setstate__(self, state):
        state = _entries(state, type(self).__name__)
        version = state.pop(_VERSION, "before 0.1")
        if version != __version__:
            # scikit-learn takes a second to import, which a process that only reads
            # a graph would wait for
            from sklearn.exceptions import InconsistentVersionWarning

            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=__version__,
                    original_sklearn_version=version,
                ),
                stacklevel=2,
            )
        for name, value in state.items():
            if FeatureNames.is_packed(value):
                state[name] = FeatureNames.unpack(value)
        self._restore(state)

    def _state(self):
        """Return the state to write, a dict."""
        return super().__getstate__()

    def _restore(self, state):
        """Set the attributes of the object from a state that was read."""
        super().__setstate__(state)


def _written(value):
    """Return a value of a state in the form in which it is pickled."""
    if isinstance(value, FeatureNames):
        value = value.packed()
    if type(value) is dict:
        return {name: _written(each) for name, each in value.items()}
    # skops cannot read memmaps, which joblib's mapped models contain
    return np.asarray(value) if isinstance(value, np.memmap) else value


def _entries(state, name):
    if not isinstance(state, dict):
        raise ValueError(f"this is not the state of a {name}: {type(state).__name__}")
    return dict(state)


def required(state, names, owner):
    """Return values of a state, or raise an error that names a missing one.

    Parameters
    ----------
    state : dict
        The state that was read.
    names : sequence of str
        Names of the values.
    owner : str
        Name of the class.

    Returns
    -------
    values : list
        The values, in the order of the names.

    Raises
    ------
    ValueError
        If one of them is missing.
    """
    missing = [name for name in names if name not in state]
    if missing:
        raise ValueError(f"this is not the state of a {owner}: it lacks {missing[0]}")
    return [state[name] for name in names]
