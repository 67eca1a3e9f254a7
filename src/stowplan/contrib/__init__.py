"""Packs of plugins that are not part of kube-scheduler."""
