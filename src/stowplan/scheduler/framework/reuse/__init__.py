"""Results kept for pods of one equivalence class, refreshed only in rows that changed.

* `equivalence_class`: the classes, their signatures, and the memory they may take
* `filter_results`: codes of the filters by row
* `score_results`: scores by row, their normalisation and weighted sum
* `ranking`: the best rows of a sum, found by blocks

`scheduler/framework/runtime.py` calls Filter and Score plugins through these.
"""
