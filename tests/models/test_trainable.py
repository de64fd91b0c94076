"""One protocol for all that solvers train, compiled or not."""

import ast
import inspect

import pytest

from sksstruct.models.protocols._bound_model import BoundModel
from sksstruct.models.protocols.trainable import Trainable
from sksstruct.solvers.core import base, procedures

NAMES = {*vars(Trainable), *Trainable.__annotations__}
NAMES = sorted(name for name in NAMES if not name.startswith("_"))


@pytest.mark.parametrize("name", NAMES)
def test_bound_models_have_the_protocol(name):
    bound = BoundModel()
    assert hasattr(bound, name)
    default = getattr(Trainable, name, None)
    if callable(default):
        assert default(bound) == getattr(bound, name)()
    # whatever has oracles has more to say
    elif name != "oracles" and hasattr(Trainable, name):
        assert getattr(bound, name) == default


@pytest.mark.parametrize("module", [base, procedures])
def test_what_any_solver_asks_for_is_declared(module):
    asked = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "model"
    }
    assert {"oracles", "surrogate"} <= asked
    # only models that raise WeightsFull are asked to grow
    assert asked - {"grow"} <= set(NAMES)
