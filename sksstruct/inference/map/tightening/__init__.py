"""Clusters of three variables, which tighten the relaxation of message passing.

Reading order: `tightened` (the solver), `tighten` (rounds of sweeps and new clusters),
`clusters` and `_clusters` (scores of variables, edges and triplets, and the sweeps that
move them), `cycles` and `_cycles` (search for triangles and cycles to add).

Data flow: the reparametrization of TRW-S, sweeps that move scores between variables,
edges and triplets, contradictory triangles and cycles, new triplets, and again sweeps.
"""
