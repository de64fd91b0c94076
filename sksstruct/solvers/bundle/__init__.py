"""Cutting planes: of the whole risk, and of each example."""
