"""From potentials to labelings: oracles that know no weights and no features."""

from sksstruct.inference._viterbi import viterbi

__all__ = ["viterbi"]
