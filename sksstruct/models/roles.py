"""Losses, duals and factors of bound models, by the type of the model.

A bound model is a layout of weights and a structure of labelings. The functions below
build losses with a gradient, dual variables and factors on bound models. Each function
is registered for types of models and, for models of tables, for types of structures:
bound models need not import losses, duals or factors. Models that wrap other models
register themselves. Names in quotes below, such as "exp", are names of oracles:
`BoundModel.oracles` lists the oracles that a model has.
"""

from functools import singledispatch, wraps

import numpy as np

from sksstruct.models.binary._binary import BoundBinary
from sksstruct.models.binary.duals import BinaryCoordinates, BinaryDual
from sksstruct.models.chain._chain import BoundChain
from sksstruct.models.chain._entropy_dual import ChainEntropyDual
from sksstruct.models.chain._factors import chain_factors
from sksstruct.models.chain._smooth import ChainSmoothLoss
from sksstruct.models.graph.labeled import (
    BoundRelaxedGraph,
    forest_factors,
    relaxed_factors,
)
from sksstruct.models.graph.structure import Graphs
from sksstruct.models.multiclass._multiclass import Classes
from sksstruct.models.multilabel._multilabel import LabelSets
from sksstruct.models.multilabel.conditional import (
    ConditionalDual,
    ConditionalLoss,
    ConditionalModel,
)
from sksstruct.models.multilabel.curvature import LabelBlocks
from sksstruct.models.multilabel.multilabel import multilabel_factors
from sksstruct.models.polytope_dual import ChainDual, ClassDual, ForestDual
from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.protocols._topk_hinge import TopKHinge
from sksstruct.models.scores.scored import ScoredLoss
from sksstruct.models.tables._entropy_dual import TableEntropyDual
from sksstruct.models.tables._smooth import TableSmoothLoss
from sksstruct.models.tables._table import BoundTable


def _missing(what, model):
    """The error of a model without a loss, dual or factors of some kind."""
    return NotImplementedError(f"{type(model).__name__} has no {what}")


def _of_structure(forms):
    """Return a function that forms a dual, or factors, of a table model.

    `forms` has a function for each type of the model's structure.
    """

    def form(model):
        if type(model.structure) not in forms:
            raise _missing("such dual", model.structure)
        return forms[type(model.structure)](model)

    return form


# ---- a loss with a gradient ----


@singledispatch
def smooth_loss(model, smoothing, nonsmooth=False):
    """Form a loss with a gradient, by the oracle "exp", "topk" or "slopes".

    "exp" is for smoothing by the entropy, "topk" for smoothing by l2, and "slopes" for
    losses that are smooth without smoothing.

    Parameters
    ----------
    model : BoundModel
        Model with its data.
    smoothing : SmoothedHinge
        Kind and strength of the smoothing, and the number of labelings.
    nonsmooth : bool, default=False
        Whether the hinge itself is minimized, by means of this loss.

    Returns
    -------
    loss : SmoothLoss
    """
    raise _missing("smooth loss", model)


smooth_loss.register(BoundModel, TopKHinge)


@smooth_loss.register(BoundTable)
def _(model, smoothing, nonsmooth=False):
    sums = smoothing.by_sums and "exp" in model.oracles
    return (TableSmoothLoss if sums else TopKHinge)(model, smoothing, nonsmooth)


@smooth_loss.register(BoundChain)
def _(model, smoothing, nonsmooth=False):
    return ChainSmoothLoss(
        model,
        smoothing,
        model.unknown,
        model.choices,
        model.numbers,
        nonsmooth,
        model.support,
    )


@smooth_loss.register(ConditionalModel)
def _(model, smoothing, nonsmooth=False):
    return ConditionalLoss(model)


@singledispatch
def nonlinear_loss(model, smoothing, k, fine=True):
    """Form the loss of scores that are not linear in the weights (oracle "nonlinear").

    Parameters
    ----------
    model : ScoredLoss
        Model with its data.
    smoothing : {"auto", "entropy", "l2"}
        Kind of smoothing of a hinge.
    k : int
        Number of labelings for "l2".
    fine : bool, default=True
        Whether parts are small, for stochastic steps.

    Returns
    -------
    loss : NonlinearLoss
    """
    raise _missing("loss of nonlinear scores", model)


@nonlinear_loss.register(ScoredLoss)
def _(model, smoothing, k, fine=True):
    return model.prepare(smooth_loss, smoothing, k, fine)


# ---- duals ----


@singledispatch
def entropy_dual(model, smoothing, state=None):
    """Form dual variables of a loss smoothed by the entropy, by the oracle "exp".

    Parameters
    ----------
    model : BoundModel
        Model with its data; `BoundModel.entropy_dual_bytes` is not None.
    smoothing : SmoothedHinge
        Strength of the smoothing.
    state : dict, default=None
        `EntropyDual.state` of earlier dual variables, whose arrays this object changes.

    Returns
    -------
    dual : EntropyDual
    """
    raise _missing("dual of a loss smoothed by the entropy", model)


@entropy_dual.register(BoundTable)
def _(model, smoothing, state=None):
    return TableEntropyDual(model, smoothing.mu, state)


@entropy_dual.register(BoundChain)
def _(model, smoothing, state=None):
    return ChainEntropyDual(model, smoothing.mu, state)


@singledispatch
def fits_entropy_dual(model, state, smoothing):
    """Whether `entropy_dual` can start from the state of another problem.

    Parameters
    ----------
    model : BoundModel
        Model with its data.
    state : dict
        `EntropyDual.state`, or another dict.
    smoothing : SmoothedHinge
        Strength of the smoothing.

    Returns
    -------
    fits : bool
    """
    # duals of other labels are no useful start: the new labels would have probabilities
    # near zero, and many steps would be needed to increase these
    return (
        state.get("mu") == smoothing.mu
        and state.get("signature") == model.signature
        and np.array_equal(state.get("labels"), model.labels)
    )


@fits_entropy_dual.register(BoundChain)
def _(model, state, smoothing):
    # natural parameters, and their number, depend on the features on pairs
    pairs = model.pair_features
    return fits_entropy_dual.dispatch(object)(model, state, smoothing) and (
        pairs is None or pairs.same_as(state.get("pair_features"))
    )


@singledispatch
def dual_space(model):
    """Form the dual variables as one vector, for models with the oracle "projection".

    Parameters
    ----------
    model : BoundModel
        Model with its data.

    Returns
    -------
    space : DualSpace
    """
    raise _missing("dual of one vector", model)


dual_space.register(BoundBinary, BinaryDual)
dual_space.register(BoundChain, ChainDual)
dual_space.register(BoundTable, _of_structure({Graphs: ForestDual, Classes: ClassDual}))


@singledispatch
def coordinate_dual(model, alpha, state=None):
    """Form dual variables that a solver changes one by one (oracle "coordinates").

    Parameters
    ----------
    model : BoundBinary or ConditionalModel
        Model with its data.
    alpha : float
        Regularization.
    state : ndarray, default=None
        `CoordinateDual.state` of earlier dual variables.

    Returns
    -------
    dual : CoordinateDual
        One variable for each example, or for each label of each example.
    """
    raise _missing("dual of one variable after the other", model)


coordinate_dual.register(BoundBinary, BinaryCoordinates)
coordinate_dual.register(ConditionalModel, ConditionalDual)


@singledispatch
def fits_coordinate_dual(model, state):
    """Whether `coordinate_dual` can start from the state of another problem.

    Parameters
    ----------
    model : BoundBinary or ConditionalModel
        Model with its data.
    state : ndarray
        `CoordinateDual.state`.

    Returns
    -------
    fits : bool
    """
    raise _missing("dual of one variable after the other", model)


@fits_coordinate_dual.register(BoundBinary)
def _(model, state):
    return state.shape == (model.n_examples,)


@fits_coordinate_dual.register(ConditionalModel)
def _(model, state):
    return state.shape == (model.n_examples + 1, model.rows.n_labels)


@singledispatch
def curved_blocks(model, alpha):
    """Form blocks of weights whose objectives add up (oracle "curvature").

    Parameters
    ----------
    model : ConditionalModel
        Model with its data.
    alpha : float
        Regularization.

    Returns
    -------
    blocks : LabelBlocks
        A block for each label; one for all labels if there are pairs.
    """
    raise _missing("curvature", model)


curved_blocks.register(ConditionalModel, LabelBlocks)


# ---- factors ----


def _once(form):
    """Form factors once for all callers, as factors hold weights and tables."""

    @wraps(form)
    def factors(model):
        if model.kept_factors is None:
            model.kept_factors = form(model)
        return model.kept_factors

    return factors


@singledispatch
def factor_model(model):
    """Form the factors of all examples, for models with the oracle "factors".

    Parameters
    ----------
    model : BoundModel
        Model with its data, which keeps the result.

    Returns
    -------
    factors : FactorModel or BinaryFactorModel
        The same object for all callers.
    """
    raise _missing("factors", model)


factor_model.register(BoundChain, _once(chain_factors))
factor_model.register(
    BoundTable,
    _once(_of_structure({Graphs: forest_factors, LabelSets: multilabel_factors})),
)
factor_model.register(BoundRelaxedGraph, _once(relaxed_factors))
