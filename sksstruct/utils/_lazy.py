"""Names of a package whose modules are imported on first access (PEP 562).

Importing a module of a package runs the package's ``__init__`` first. If this imported
scikit-learn, a process that only tags would wait a second without need.
"""

import pkgutil
import sys
from importlib import import_module


def lazy_names(package, homes):
    """Return ``__getattr__`` and ``__dir__`` of a package, for names and modules.

    Parameters
    ----------
    package : str
        Name of the package.
    homes : dict of str to sequence of str
        Public names that each module below the package defines.

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

    def find_name(name):
        if name in homes:
            module = import_module(f"{package}.{homes[name]}")
            # the value is stored, so that the next look-up does not call this function
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

    return find_name, names
