"""Distance to the optimum against oracle calls on OCR letters."""

from _tables import draw_calls

draw_calls("OCR", "OCR letters, 626 words, alpha = 1 / 626")
