"""Scores of any form in place of rows of features times a block of weights."""
