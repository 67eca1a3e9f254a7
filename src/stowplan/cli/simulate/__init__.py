"""Commands that simulate a cluster, and those that record, replay and shadow one.

`simulation` has the options they share; the work is done in `stowplan.simulate` and `scheduler.recording`.
"""
