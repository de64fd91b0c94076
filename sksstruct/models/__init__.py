"""Linear maps between weights and potentials; they know no optimisation."""

from sksstruct.models.score import ELUScore, ScoreFunction

__all__ = ["ELUScore", "ScoreFunction"]
