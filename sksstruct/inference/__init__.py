"""From potentials to labelings: oracles that know no weights and no features."""

from sksstruct.inference._constraints import bio_transitions
from sksstruct.inference._sumproduct import forward_backward
from sksstruct.inference._topk import viterbi_topk
from sksstruct.inference._viterbi import viterbi

__all__ = ["bio_transitions", "forward_backward", "viterbi", "viterbi_topk"]
