"""The Python process underneath: time, the event loop, logs, memory.

* `clock`: clocks as arguments, an event loop in virtual time, a watchdog for callbacks that block the loop
* `logs`: klog's log lines
* `gc_tuning`, `sharding`: no long pauses for garbage collection or for the growth of a dictionary
* `lazy`: modules that are loaded on first use; `formerpaths`: modules that have moved

It knows nothing of Kubernetes; of our packages it imports `gocompat` only. Begin with `clock`.
"""
