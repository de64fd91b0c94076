"""Models written in Python: `python.py`, which solvers call through `_python.pyx`."""
