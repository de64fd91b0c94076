"""Tools of all other folders: ragged data, validation, parallel work, memory, SIMD.

This folder imports nothing of the package but itself.
"""

from sksstruct.utils._lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {})
