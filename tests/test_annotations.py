"""Public signatures have annotations, which agree with docstrings and constraints."""

import ast
import importlib
import inspect
import re
import sys
import typing
from types import NoneType, UnionType

import numpy as np
import pytest
from numpydoc.docscrape import NumpyDocString
from test_docstrings import PUBLIC

import sksstruct
from sksstruct.utils._param_validation import StrOptions

ESTIMATORS = [
    "ChainCRF",
    "LPMAPPredictor",
    "LinearSSVC",
    "MultilabelPairwise",
    "SSVMClassifier",
    "SSVMPathCV",
    "SegmentCRF",
]
BASIC = {"int": int, "float": float, "bool": bool, "str": str}
QUOTED = re.compile(r'"[^"]*"')


def is_ours(value):
    return getattr(value, "__module__", None) and value.__module__.startswith(
        "sksstruct."
    )


def function_of(member):
    """The function behind a class attribute, or None."""
    member = getattr(member, "fget", None) or getattr(member, "__func__", member)
    member = getattr(member, "fn", member)  # behind available_if
    return member if inspect.isroutine(member) else None


def members(cls):
    """Public methods and properties that are ours, each by name."""
    for name in dir(cls):
        member = inspect.getattr_static(cls, name)
        function = function_of(member)
        if not name.startswith("_") and function and is_ours(function):
            yield name, function


def public():
    """Every public function, class and method, by name."""
    found = {}
    for module in map(importlib.import_module, PUBLIC):
        for name in getattr(module, "__all__", vars(module)):
            value = getattr(module, name)
            # not the scorers of scikit-learn, nor what a module without __all__ imports
            if name.startswith("_") or not (callable(value) and is_ours(value)):
                continue
            if not hasattr(module, "__all__") and value.__module__ != module.__name__:
                continue
            if not inspect.isclass(value):
                found[f"{value.__module__}.{name}"] = value
                continue
            if not inspect.isfunction(value.__init__) or is_ours(value.__init__):
                found[f"{value.__module__}.{name}"] = value
            for _, function in members(value):
                found[f"{function.__module__}.{function.__qualname__}"] = function
    return found


CALLABLES = public()


def hints_of(typed):
    """Types by parameter, and of the result as "return"."""
    if inspect.isclass(typed) and not issubclass(typed, tuple):
        typed = typed.__init__
    typed = getattr(typed, "__func__", typed)
    if not (inspect.isclass(typed) or inspect.isfunction(inspect.unwrap(typed))):
        return {}  # of object, without parameters
    return typing.get_type_hints(inspect.unwrap(typed))


def flat(hint):
    """Types of a union, and the values of its literals."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, UnionType):
        parts = [flat(part) for part in typing.get_args(hint)]
        return set().union(*(part[0] for part in parts)), set().union(
            *(part[1] for part in parts)
        )
    if origin is typing.Literal:
        return set(), set(typing.get_args(hint))
    return {hint}, set()


def documented(function):
    """Types of parameters in a docstring, without defaults, by name."""
    text = NumpyDocString(inspect.cleandoc(function.__doc__ or ""))
    return {
        name.strip().lstrip("*"): re.sub(r",\s*default=.*", "", parameter.type)
        for parameter in text["Parameters"]
        for name in parameter.name.split(",")
    }


def options_of(text):
    """Values that a documented type lists, and the other alternatives."""
    values = {ast.literal_eval(quoted) for quoted in QUOTED.findall(text)}
    for numbers in re.findall(r"\{([\d, ]+)\}", text):
        values |= {int(number) for number in numbers.split(",")}
    rest = re.sub(r"\{[\d, ]*\}", "", QUOTED.sub("", text))
    return values, {part.strip() for part in re.split(r",|\bor\b", rest)} - {""}


def test_nothing_public_is_compiled():
    """What users call is Python, whose annotations and errors they can read."""
    assert len(CALLABLES) > 500
    files = {
        value: sys.modules[value.__module__].__file__ for value in CALLABLES.values()
    }
    assert [value for value, file in files.items() if not file.endswith(".py")] == []


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_every_parameter_and_result_is_annotated(name):
    value = CALLABLES[name]
    signature, hints = inspect.signature(value), hints_of(value)
    names = [p for p in signature.parameters if p not in ("self", "cls")]
    assert [p for p in names if p not in hints] == []
    assert inspect.isclass(value) or "return" in hints


@pytest.mark.parametrize("name", sorted(CALLABLES))
def test_annotations_and_docstrings_agree(name):
    value = CALLABLES[name]
    hints, texts = hints_of(value), documented(value)
    for parameter in inspect.signature(value).parameters.values():
        text = texts.get(parameter.name)
        types, literals = flat(hints.get(parameter.name, typing.Any))
        if text is None or parameter.kind in (
            parameter.VAR_KEYWORD,
            parameter.VAR_POSITIONAL,
        ):
            continue
        values, others = options_of(text)
        if typing.Any in types or object in types or others == {"optional"}:
            continue
        where = f"{parameter}, documented as {text}"
        assert literals - {"deprecated"} == values, where
        assert ("deprecated" in literals) == (parameter.default == "deprecated"), where
        has_none = "None" in others or parameter.default is None
        assert (NoneType in types) == has_none, where
        basic = {BASIC[other] for other in others if other in BASIC}
        wide = {complex, *types} if float in types else types
        assert basic <= wide | ({float} if complex in types else set()), where
        if others <= {*BASIC, "None"}:
            assert basic == types - {NoneType}, where


def test_literals_and_constraints_agree():
    checked = 0
    for name, value in CALLABLES.items():
        constraints = getattr(value, "_parameter_constraints", None)
        if not inspect.isclass(value) or not constraints:
            continue
        hints = hints_of(value)
        for parameter in inspect.signature(value).parameters:
            allowed = constraints.get(parameter)
            options = [o for o in allowed or () if isinstance(o, StrOptions)]
            types, literals = flat(hints[parameter])
            if options:
                listed = set().union(*(o.options for o in options))
                assert literals == listed, (name, parameter)
                checked += 1
            # tests by name, as "random_state", say themselves whether None is valid
            named = any(isinstance(test, str) for test in allowed or ())
            if allowed and not named and object not in allowed:
                assert (None in allowed) == (NoneType in types), (name, parameter)
    assert checked > 50


# What a documented type is in annotations, by its first words.
ATTRIBUTES = {
    "ndarray": np.ndarray,
    "int": int,
    "float": float,
    "list": list,
    "dict": dict,
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fitted_attributes_are_annotated(name):
    cls = getattr(sksstruct, name)
    hints, compared = typing.get_type_hints(cls), 0
    for attribute in NumpyDocString(inspect.cleandoc(cls.__doc__))["Attributes"]:
        kind = attribute.type.split()[0]
        for each in attribute.name.split(", "):
            assert each in hints, each
            if kind in ATTRIBUTES and hints[each] is not typing.Any:
                hint = typing.get_origin(hints[each]) or hints[each]
                assert hint is ATTRIBUTES[kind], each
                compared += 1
    assert compared > 2
