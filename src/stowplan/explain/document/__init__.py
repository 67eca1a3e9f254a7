"""The document: what is known about a pod, a group, a node or a queue, as typed data with its sentences.

Everything that is shown is one of these: in a terminal, as JSON, on the page, over HTTP. They import nothing
of stowplan, so a client that asks a running scheduler needs no engine to show the answer.

* `pod`, `decision`, `preemption`: one pod
* `group`: a group of pods
* `workload`: a Deployment, StatefulSet, DaemonSet, Job, CronJob or ReplicaSet
* `pending`: all that wait, by cause
* `cluster`, `queue`: nodes, lists, maps, the queue, decisions, costs
* `schema`: all of them as a JSON schema (docs/decision-document.schema.json)
"""
