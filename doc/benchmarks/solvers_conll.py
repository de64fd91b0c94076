"""Distance to the optimum against oracle calls on CoNLL-2000."""

from _tables import draw_calls

draw_calls("CoNLL", "CoNLL-2000, alpha = 0.02 = 179 / n")
