"""Plugins for groups of pods, one module each.

* `gangscheduling`: all of a gang's `minCount` or none
* `topologyaware`: a group in one topology domain
* `podgrouppodscount`: the placement that takes most pods
* `coscheduling`: gangs of scheduler-plugins' PodGroup, on request
"""
