"""Documents as text for a terminal. These modules need nothing but the document.

* `pod`, `group`, `pending`, `preemption`: explanations
* `board`: the view of `stowplan top`
* `scheduling`, `decision`: where a pod is in a running scheduler, and one decision
"""
