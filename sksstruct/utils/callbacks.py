"""scikit-learn's callbacks, which came with its version 1.9.

With older versions estimators work alike, but take no callbacks.
"""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

_Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

if TYPE_CHECKING:
    from sklearn.callback import CallbackSupportMixin

    # scikit-learn has no annotations: a decorated method would be of any type
    def with_callbacks(method: _Decorated, /) -> _Decorated:
        """Callbacks around `fit`, whose signature stays the same."""

else:
    try:
        from sklearn.callback import CallbackSupportMixin, with_callbacks
    except ModuleNotFoundError:

        class _NoCallbacks:
            """The context of a fit, or of a part of it, that nobody looks at."""

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
            # a frame, as with callbacks: warnings are said to come from further up
            @wraps(method)
            def without_callbacks(*args, **kwargs):
                return method(*args, **kwargs)

            return without_callbacks


__all__ = ["CallbackSupportMixin", "with_callbacks"]
