"""Names of a package that import their module when they are first asked for (PEP 562).

Importing a module of a package runs the package's ``__init__`` first. Where that
imports scikit-learn, a process that only tags waits a second for nothing.
"""

import pkgutil
import sys
from importlib import import_module


def lazy_names(package, homes):
    """``__getattr__`` and ``__dir__`` of a package, whose modules are attributes, too.

    Parameters
    ----------
    package : str
        Name of the package.
    homes : dict of str to sequence of str
        For modules below the package the public names that they define.

    Returns
    -------
    getattr, dir : callable
        The two functions, to be assigned to ``__getattr__`` and ``__dir__``.
    """
    contents = vars(sys.modules[package])
    homes = {name: module for module, names in homes.items() for name in names}

    def modules():
        found = {module.name for module in pkgutil.iter_modules(contents["__path__"])}
        return {name for name in found if not name.startswith("_")}

    def find(name):
        if name in homes:
            module = import_module(f"{package}.{homes[name]}")
            # kept: the next look-up does not come here
            contents[name] = value = getattr(module, name)
            return value
        if not name.startswith("_") and name in modules():
            try:
                return import_module(f"{package}.{name}")
            except ImportError as error:
                # `hasattr` is false where an optional dependency is not installed;
                # `import` and `from` still raise the ImportError.
                raise AttributeError(str(error)) from error
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def names():
        return sorted({*contents, *homes, *modules()})

    return find, names
