"""Two classes and a linear score.

`binary.py` is the model, bound by `_binary.pyx`; `duals.py` has its dual variables, as
one vector or as coordinates, which `_coordinates.pyx` visits.
"""
