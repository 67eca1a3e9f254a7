"""Controllers of workloads: Deployments, StatefulSets, DaemonSets, Jobs, and their disruption budgets.

One module per kind; `podcontrol` creates pods, `history` and `rollout` are revisions and updates.
"""
