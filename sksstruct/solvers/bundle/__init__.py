"""Cutting planes: `bmrm.py` of the whole risk, `cutting_plane.py` of each example.

`dual_bundle.py` combines dual points for other solvers; `_simplex_qp.py` solves the
quadratic programs of the bundles.
"""
