"""One of many candidates."""

from sksstruct.models.candidates.candidates import CandidatesModel

__all__ = ["CandidatesModel"]
