"""The layers around a decision: which scheduler decides, and what happens before and after.

A scheduler reads nodes, pods and what decisions depend on. Why a pod was never created, whose it is, or why
it does not start is told by other objects: events, leases, quotas, workloads. They are read when somebody
asks, with the rights of whoever asks, and what could not be read is part of the answer.

* `reads`: reading such objects, of an API server or of a dump
* `deciders`: the scheduler that decides a pod
* `owners`: the controllers above a pod
* `wider`: priority classes, limit ranges and budgets, which decide which changes can be offered
"""
