"""Oracles on semi-Markov chains, whose parts are labeled segments."""
