"""The best of the candidates of an input: `candidates.py` on `_candidates.pyx`."""

from sksstruct.models.candidates.candidates import CandidatesModel

__all__ = ["CandidatesModel"]
