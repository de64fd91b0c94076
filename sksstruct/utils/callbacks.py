"""scikit-learn's callbacks, available from its version 1.9 on.

With older versions, estimators work the same way but accept no callbacks.
"""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

if TYPE_CHECKING:
    from sklearn.callback import CallbackSupportMixin

    # for type checkers: scikit-learn's function has no annotations, so that the type of
    # a decorated method would be Any
    def with_callbacks(method: _Decorated, /) -> _Decorated:
        """Call callbacks around `fit`, whose signature stays the same."""

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ModuleNotFoundError:

        class _NoCallbacks:
            """The context of a fit, or of a part of it, without callbacks."""

            def subcontext(self, **description):
                return self

            def call_on_fit_task_begin(self, **now):
                pass

            def call_on_fit_task_end(self, **now):
                return False

        class CallbackSupportMixin:
            def set_callbacks(self, *callbacks):
                raise NotImplementedError("callbacks need scikit-learn 1.9 or newer")

            def _init_callback_context(self, **description):
                return _NoCallbacks()

        def with_callbacks(method):
            # wrapped, as with callbacks, so that warnings have the same stack level
            @wraps(method)
            def without_callbacks(*args, **kwargs):
                return method(*args, **kwargs)

            return without_callbacks


__all__ = ["CallbackSupportMixin", "with_callbacks"]
