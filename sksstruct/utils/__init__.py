"""Ragged data, checks, parallel work: below all floors."""

from sksstruct.utils._lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {})
