"""scikit-learn's callback protocol around the passes of a solver."""


class PassCallbacks:
    """Callback of a solver that reports passes to the callbacks of an estimator.

    Parameters
    ----------
    estimator : estimator with `CallbackSupportMixin`
        The estimator that is being fitted.
    max_iter : int or None
        Maximum number of passes.
    attributes : callable
        ``attributes(weights)`` returns the fitted attributes for flat weights.
    X, y : objects
        The training data, as given to fit.
    validation : Validation, default=None
        Scores the weights after every pass on held-out data, and returns whether to
        stop.
    """

    def __init__(self, estimator, max_iter, attributes, X, y, *, validation=None):
        self._estimator = estimator
        self._max_iter = max_iter
        self._attributes = attributes
        self._validation = validation
        self._data = {"X": X, "y": y}
        self._last_reported = 0
        self._context = estimator._init_callback_context(max_subtasks=max_iter)
        self._context.call_on_fit_task_begin(estimator=estimator, **self._data)
        self._begin()

    def _begin(self):
        self._pass = self._context.subcontext(task_name="pass")
        self._pass.call_on_fit_task_begin(estimator=self._estimator, **self._data)

    def __call__(self, n_passes, weights):
        # if a model has too little room for its weights, the solver starts over with
        # more, and repeats passes that were reported already
        if n_passes <= self._last_reported:
            return False
        self._last_reported = n_passes
        stop = self._pass.call_on_fit_task_end(
            estimator=self._estimator,
            reconstruction_attributes=lambda: self._attributes(weights()),
            **self._data,
        )
        self._pass = None
        if not stop and self._validation is not None:
            stop = self._validation(self._attributes(weights()))
        if not stop and n_passes != self._max_iter:
            self._begin()
        return stop

    def close(self):
        """End the task of the fit, and the task of a pass that was begun, if any."""
        if self._pass is not None:
            self._pass.call_on_fit_task_end(estimator=self._estimator)
        self._context.call_on_fit_task_end(
            estimator=self._estimator, reconstruction_attributes=dict, **self._data
        )
