"""Clusters of three variables, which cut off what satisfies no labeling."""
