"""Comparing stowplan with recorded facts of kube-scheduler.

* `recording`: files of JSON lines; `dispatch`: which module replays a line
* `primitives`, `config`, `hints`: facts that stand alone
* `replay`, `decisions`: scenarios of pods placed one after the other, every detail compared
* `report`: counts and differences
"""
