"""Documents made by the engine, on any table and profile: of a running scheduler, of lists, of a file.

* `pod`: one pod; begin here
* `rejections`: which filters reject which nodes, and the near misses
* `changes`: the smallest changes that would place a pod, each tried by the engine
* `facts`: what the pod and its neighbours tell: gates, claims, a nomination, evictions
* `group`: a group of pods; `members`: what it means for a pod of it
* `preemption`: what preemption would do
* `causes`: all waiting pods by cause
"""
