"""Controllers of workloads: Deployments, StatefulSets, DaemonSets, Jobs, and their disruption budgets."""
