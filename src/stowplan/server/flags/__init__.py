"""The flags of `stowplan run`: those of kube-scheduler, parsed as pflag parses them.

* `table`: every flag in its group, with type, default and help; the place to add one
* `parser`: what a flag is, and arguments to values
* `values`: the types of values; numbers and lists as Go reads them, with Go's error messages

Nothing here imports the scheduler, so that `--help` and `--version` are quick.
"""
