"""Documents made by the engine, on any table and profile: of a running scheduler, of lists, of a file.

* `pod`: one pod; begin here
* `rejections`: which filters reject which nodes, and the near misses
* `relevance`: the nodes that the pod means, and what rules them out; `naming`: nodes by the label that tells
  them apart
* `changes`: changes that would place a pod, those that keep what it wants first, each tried by the engine;
  `trials`: the pod or the cluster with a change
* `claims`: claims that keep a pod from every node
* `facts`: what the pod and its neighbours tell: gates, claims, a nomination, evictions
* `group`: a group of pods; `members`: what it means for a pod of it
* `preemption`: what preemption would do
* `causes`: all waiting pods by cause
"""
