"""Extension points for groups of pods that are placed as a whole (Kubernetes 1.37).

* `placement`: what these plugins are given and return: groups, placements, progress
* `extension_points`: how the plugins of a profile are called

The scheduling cycle of a group is in `scheduler/pod_groups/`.
"""
