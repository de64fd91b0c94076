"""Tools for all other folders: ragged data, validation, threads, memory, SIMD.

* Sequences: `packed.py`, with `_ragged.py` and `_mixed.py`; `labels.py`, `observed.py`;
  on disk `shards.py`.
* Input: `validation.py`, `sparse_input.py`, `_param_validation.py`; from files
  `_files.py`, `entries.py`, `state.py`.
* Runs: `parallel.py`, `progress.py`, `callbacks.py`, `estimator_checks.py`.
* Kernels: `_simd.h`, which lists its headers; `_pointers`, `_memory`, `_arena`,
  `_heap`, `_sets`, `_random`.

This folder imports nothing of the package but itself.
"""

from sksstruct.utils._lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, {})
