"""Semi-Markov chains: segments with labels, lengths and features of their own."""
