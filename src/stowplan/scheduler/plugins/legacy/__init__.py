"""Predicates and priorities that kube-scheduler no longer has, as plugins.

None is part of the default profile. A configuration enables them by name like any plugin, and gives them
arguments; kube-scheduler itself would refuse such a configuration. `names.py` says which predicate or
priority became which plugin, here or upstream.
"""
