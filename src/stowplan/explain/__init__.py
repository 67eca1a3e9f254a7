"""Why a pod goes where it goes, why it is still pending, and what would have to change.

* `text`: a decision as text
* `state`: where a pod is in a running scheduler
* `rejections`: which filters reject which nodes, and the near misses
* `changes`: the smallest changes that would place a pod, each verified by the engine
* `explainer`: all of it for one pod, on any cluster
* `preemption`: what preemption did or would do
* `terminal`, `pending_text`, `layout`: explanations as text; they need nothing but the data
"""
