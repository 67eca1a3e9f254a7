"""Pod groups: the scheduling cycle of a group, its algorithm, results and status.

`cycle` takes a group through one attempt, `algorithm` places its members; `status` writes what came of it.
"""
