"""Documentation that is written once and used in several docstrings."""

import inspect
import re
import textwrap

from sksstruct.utils.typing import Decorator

_WIDTH = 88
_PLACE = re.compile(r"^( *)%\((\w+)\)s([.,;]?)$", re.MULTILINE)


def fill_doc(texts: dict[str, str]) -> Decorator:
    """Put shared texts into the docstrings of a class and its methods.

    Parameters
    ----------
    texts : dict of str to str
        A line of a docstring that consists of ``%(name)s``, and perhaps a full stop,
        comma or semicolon, becomes ``texts[name]``, indented like that line.

    Returns
    -------
    decorator : callable
        For a class or a function.

    Raises
    ------
    KeyError
        If a docstring names a text that does not exist.
    """

    def indented(place):
        text = texts[place.group(2)].strip("\n") + place.group(3)
        return textwrap.indent(text, place.group(1))

    def decorate(documented):
        parts = [documented]
        if inspect.isclass(documented):
            # unwrap methods behind available_if, classmethod and staticmethod
            members = [
                getattr(part, "fn", getattr(part, "__func__", part))
                for part in vars(documented).values()
            ]
            parts += [part for part in members if inspect.isfunction(part)]
        for part in parts:
            if part.__doc__:  # with -OO there are no docstrings
                part.__doc__ = _PLACE.sub(indented, part.__doc__)
        return documented

    return decorate


def section(documented, name):
    """Return the text of a section of a docstring, for `fill_doc`.

    Parameters
    ----------
    documented : class or function
        Object with the docstring.
    name : str
        Heading of the section.

    Returns
    -------
    text : str
        Text below the heading, without marks of references such as ``[1]_``; empty if
        docstrings were stripped.
    """
    text = inspect.getdoc(documented) or ""
    _, _, rest = text.partition(f"{name}\n{'-' * len(name)}\n")
    # the text ends before the heading of the next section
    return re.sub(r"\s\[\d+\]_", "", re.split(r"\n\n[^\n]+\n---", rest)[0])


def listing(names, last="or", indent=8):
    """Return names in quotes as lines of text: ``"a", "b" or "c"``.

    Parameters
    ----------
    names : list of str
        Names, at least one.
    last : str, default="or"
        Word before the last name.
    indent : int, default=8
        Columns by which the lines will be indented.

    Returns
    -------
    text : str
        Lines of at most the project's width.
    """
    *first, end = [f'"{name}"' for name in names]
    text = f"{', '.join(first)} {last} {end}" if first else end
    return "\n".join(textwrap.wrap(text, _WIDTH - 1 - indent, break_on_hyphens=False))
