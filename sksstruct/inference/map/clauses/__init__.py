"""Hard constraints as clauses, and a conflict-driven search for allowed labelings.

Reading order: `constraints` (the -inf entries and conditions of a graph as clauses, and
assignments as labelings), `search` (arrays of the kernel), `_search` (the kernel).
"""
