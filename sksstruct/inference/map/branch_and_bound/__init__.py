"""Branch and bound: the best labeling, with a proof."""
