"""Scores as rows of features times blocks of weights, and what they share."""
