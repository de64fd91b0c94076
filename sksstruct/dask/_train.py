"""Training on a cluster, where no process has all data.

The steps are those of `sksstruct.estimators._train`: first, workers read the `Facts` of
each part, such as its labels, and merge them in a tree; then each part becomes a block
on a worker; then the solver runs its rounds over the blocks.
"""

from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from traceback import clear_frames
from typing import Any
from uuid import uuid4

import numpy as np
from distributed import wait

from sksstruct.dask._executor import Builder, DaskExecutor
from sksstruct.dask._parts import as_parts, n_rows
from sksstruct.dask._validation import PartsValidation
from sksstruct.estimators._callbacks import PassCallbacks
from sksstruct.estimators._train import (
    Problem,
    checked_model,
    named_solver,
    report_result,
    set_attributes,
    tolerance,
)
from sksstruct.solvers import BCFW, LBFGS, SDCA, Partitioned
from sksstruct.solvers.core.base import Options
from sksstruct.solvers.partitioned.blocks import Lender, make_block

# Number of parts whose facts one task merges.
_MERGED = 8


@dataclass
class Plan:
    """Everything except the data that a worker needs to make a block of a part.

    Parameters
    ----------
    spec : ModelSpec
        The model, which has learned the facts of all parts.
    set_loss : callable
        ``set_loss(spec, model)`` sets the loss of the bound model.
    read : callable
        Function from the inputs of a part to ``(X, y, sample_weight)``.
    solver : Partitioned
        The solver.
    alpha, l1 : float
        Regularization by the squared norm, and l1 penalty.
    outline : Outline, default=None
        Sizes and properties of the whole problem.
    """

    spec: Any
    set_loss: Any
    read: Any
    solver: Any
    alpha: float
    l1: float
    outline: Any = None

    def bind(self, *inputs):
        """The model bound to the data of a part, with the loss that is minimized."""
        model = self.spec._bind(self.spec._read_part(*self.read(*inputs)))
        self.set_loss(self.spec, model)
        # check each part: only some may have missing labels, which solvers may refuse
        self.solver.check_model(model)
        return model


def train(estimator, X, y, sample_weight, noun):
    """Train an estimator on a cluster and set its fitted attributes.

    Parameters
    ----------
    estimator : estimator
        An estimator with `client` and the parameters of the local estimator.
    X, y, sample_weight : objects
        Data in parts.
    noun : str
        Kind of estimator in messages, such as "tagger".

    Returns
    -------
    estimator : estimator
        The same object.
    """
    try:
        return _train(estimator, X, y, sample_weight, noun)
    except BaseException as error:
        # The client keeps the error of a task, with the frames of the traceback, while
        # the task has a future. The frames hold futures of tasks and of the data, so
        # that none of them would be released: clear the frames.
        while error is not None:
            clear_frames(error.__traceback__)
            error = error.__cause__
        raise


def _train(estimator, X, y, sample_weight, noun):
    spec = checked_model(estimator)
    # check the solver before all parts are read
    partitioned(estimator)
    client = estimator._client()
    parts = as_parts(X, y, sample_weight, client)
    validation = None
    if estimator.early_stopping:
        validation = PartsValidation(estimator, client, parts)
        parts = validation.rest
    facts = learn(client, spec, parts)
    solver = partitioned(estimator, spec)
    alpha = spec.default_alpha if estimator.alpha == "auto" else estimator.alpha
    l1_ratio = estimator.l1_ratio
    solver_alpha = spec.solver_alpha(alpha)
    solver.check_alpha(solver_alpha)
    plan = Plan(
        spec,
        estimator.to_local()._set_loss,
        parts.read,
        solver,
        solver_alpha * (1.0 - l1_ratio),
        solver_alpha * l1_ratio,
    )
    numbers = [number for number, size in sorted(facts.sizes.items()) if size]
    outline = client.submit(
        _outline, plan, *parts.inputs[numbers[0]], key=_key("outline"), pure=False
    ).result()
    plan.outline = replace(outline, n_examples=facts.n_examples)
    problem = Problem(
        spec,
        plan.outline,
        solver,
        partial(_attributes, estimator, spec, facts),
        alpha,
        l1_ratio,
    )
    builders = [
        Builder(partial(_make, plan, block), parts.inputs[number])
        for block, number in enumerate(numbers)
    ]
    callbacks = PassCallbacks(
        estimator, solver.max_iter, problem.attributes, X, y, validation=validation
    )
    options = Options(
        random_state=estimator.random_state,
        verbose=estimator.verbose,
        callback=callbacks,
        l1=plan.l1,
        max_seconds=estimator.max_seconds,
    )
    try:
        run = _on_cluster(solver, client)
        result = run.solve_blocks(plan.outline, builders, plan.alpha, options)
    except BaseException:
        callbacks.close()
        raise
    set_attributes(estimator, problem, result, validation)
    callbacks.close()
    report_result(estimator, problem, result, noun)
    return estimator


def partitioned(estimator, spec=None):
    """The solver of an estimator as `Partitioned`."""
    solver = named_solver(estimator, spec)
    if estimator.solver == "auto":
        solver = Partitioned(estimator.max_iter, tolerance(estimator, spec))
    elif isinstance(solver, BCFW | SDCA | LBFGS):
        solver = Partitioned(solver.max_iter, solver.tol, solver=solver)
    elif not isinstance(solver, Partitioned):
        raise ValueError(
            f"{type(solver).__name__} cannot train on data in parts: solver must be "
            "'auto', 'bcfw', 'sdca', 'lbfgs', 'partitioned', or an object of "
            "BCFW, SDCA, LBFGS or Partitioned"
        )
    if solver.blocks != "auto":
        raise ValueError(
            "blocks of Partitioned must be 'auto' with data in parts, which are the "
            f"blocks, got {solver.blocks!r:.80}"
        )
    if solver.executor is not None:
        raise ValueError(
            "executor of Partitioned must be None with data in parts, whose blocks are "
            f"on the workers of client, got {solver.executor!r:.80}"
        )
    solver.check()
    return solver


def _on_cluster(solver, client):
    """A copy of the solver whose blocks are on a cluster."""
    solver = copy(solver)
    solver.executor = DaskExecutor(client)
    return solver


def learn(client, spec, parts):
    """Let a model learn the facts of all parts, as `fit` does for all data.

    Parameters
    ----------
    client : distributed.Client
        Client of the cluster.
    spec : ModelSpec
        The model.
    parts : Parts
        The data.

    Returns
    -------
    facts : Facts
        The merged facts.
    """
    facts = _in_a_tree(client, parts, "facts", _facts, spec, _merge_facts)
    if facts is None or not facts.n_examples:
        raise ValueError("X has no examples of positive weight in any of its parts")
    spec._learn_facts(facts)
    if spec._looks_twice:
        spec._learn_seen(_in_a_tree(client, parts, "seen", _seen, spec, _merge_seen))
    return facts


def _in_a_tree(client, parts, name, read, spec, merge):
    """Read a value of each part, and merge the values in a tree.

    The tree depends only on the number of parts, so that the result does not depend on
    the cluster.

    Parameters
    ----------
    client, parts, spec : objects
        Arguments of `learn`.
    name : str
        Name of the tasks in the dashboard.
    read, merge : callable
        ``read(spec, parts.read, number, *inputs)`` and ``merge(*values)``, which run on
        workers.

    Returns
    -------
    value : object
        Result of the last merge.
    """
    nodes = [
        client.submit(
            read, spec, parts.read, number, *inputs,
            key=_key(f"{name}-{number}"), pure=False,
        )
        for number, inputs in enumerate(parts.inputs)
    ]  # fmt: skip
    wait(nodes)
    level = 0
    while len(nodes) > 1:
        level += 1
        nodes = [
            client.submit(
                merge, *nodes[k : k + _MERGED],
                key=_key(f"merge-{name}-{level}-{k}"), pure=False,
            )
            for k in range(0, len(nodes), _MERGED)
        ]  # fmt: skip
    return nodes[0].result()


def _key(name):
    # a unique key: Dask would reuse the result of another run with an equal key
    return f"sksstruct-{name}-{uuid4().hex}"


def _attributes(estimator, spec, facts, weights):
    """All fitted attributes for flat weights."""
    sizes = {}
    if facts.n_features is not None:
        sizes["n_features_in_"] = facts.n_features
    layout = spec._layout()
    views = None if layout is None else layout.views(weights)
    return {**sizes, **estimator._describe(spec, weights, views)}


# ---- on the workers ----


def _facts(spec, read, number, *inputs):
    """The facts of a part, or None for an empty part."""
    with _naming(number):
        X, y, sample_weight = read(*inputs)
        return spec._facts(X, y, sample_weight, number) if n_rows(X) else None


def _merge_facts(*facts):
    merged = None
    for each in facts:
        if each is not None:
            merged = each if merged is None else merged.merge(each)
    return merged


def _seen(spec, read, number, *inputs):
    """Combinations, such as features and pairs of labels, that occur in a part."""
    with _naming(number):
        X, y, sample_weight = read(*inputs)
        return spec._facts_seen(X, y, sample_weight) if n_rows(X) else {}


def _merge_seen(*seen):
    names = sorted(set().union(*seen))
    return {
        name: np.unique(np.concatenate([each[name] for each in seen if name in each]))
        for name in names
    }


@contextmanager
def _naming(number):
    """Add the number of the part to errors."""
    try:
        yield
    except (ValueError, TypeError) as error:
        error.add_note(f"in part {number} of the data")
        raise


def _outline(plan, *inputs):
    """Sizes and properties of the problem that the driver needs, from one part."""
    model = plan.bind(*inputs)
    plan.solver.local(model.surrogate).check_penalty(plan.l1)
    return plan.solver.outline(model, plan.alpha, plan.l1)


def _make(plan, block, shared, *inputs):
    """Make the block of a part."""
    # the blocks of a worker share a `Lender` of copies of the weights, which the first
    # block creates
    lender = shared.setdefault("lender", Lender(plan.outline))
    local = plan.solver.local(plan.outline.surrogate)
    bind = partial(plan.bind, *inputs)
    return make_block(local, bind, block, plan.alpha, lender)
