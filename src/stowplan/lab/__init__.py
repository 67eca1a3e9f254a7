"""How stowplan itself is tested and measured. `stowplan lab` runs it; nothing that users run imports it.

* `verify`: recorded decisions of kube-scheduler, replayed and compared
* `chaos`: random runs under faults; `fuzz`: hostile objects and input
* `bench`: benchmarks

It may import everything but `cli`. Begin with `verify`.
"""
