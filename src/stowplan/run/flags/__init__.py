"""The command line of `stowplan run`: flags as kube-scheduler has them, read as its users know it.

* `table`: every flag in its group, with type, default and help; the place to add one
* `flag`: what a flag and a group are; `kinds`, `lists`, `special`: the types of values
* `numbers`, `csvtext`: texts to values, with the messages Go programs give
* `parser`: arguments to values; `usage`: the help

Nothing here needs the scheduler, so that `--help` and `--version` answer at once.
"""
