"""Dependency trees of sentences: `dependencies.py` on `_dependencies.pyx`."""
