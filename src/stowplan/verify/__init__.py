"""Comparing stowplan with recorded facts of kube-scheduler.

* `recording`: reading files of JSON lines; `files`: what replays a line
* `primitives`, `config`: small facts that stand alone
* `scenario`, `replay`, `compare`, `decisions`: pods placed one after the other, every detail compared
* `unbuilt`: recordings of what stowplan does not do yet
* `report`: tallies and differences
"""
