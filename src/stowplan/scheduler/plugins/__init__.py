"""The in-tree plugins, one module or folder each, named as upstream names them.

A plugin's arguments, reason strings and queueing hints stand in its module. `registry.py` lists every plugin:
name, class, arguments, extension points, place in the default profile. `pod_groups/` has those for groups of
pods, `legacy/` those of earlier releases.
"""
