"""Pod groups: the scheduling cycle of a group, its algorithm, results and status."""
