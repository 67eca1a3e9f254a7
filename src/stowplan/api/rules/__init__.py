"""Rules over objects: pure functions of one or two of them.

* `nodeselector`, `taints`: which nodes a pod may run on
* `resources`, `amounts`: how much a pod requests
* `csitranslation`: in-tree volumes as their CSI drivers see them
"""
