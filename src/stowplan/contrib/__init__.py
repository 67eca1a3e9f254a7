"""Packs of plugins that are not part of kube-scheduler, written as a user would write them.

They import `stowplan.framework`, never the scheduler. `gpushare` is one, and an example of a pack.
"""
