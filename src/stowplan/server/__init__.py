"""`stowplan run`: the scheduler as a process on a real cluster.

* `command`: from the arguments to the exit code; `flags/`: every flag, and how they are parsed
* `options`, `gates`, `configuration`: the checked result of flags and configuration file
* `startup`: the startup plan, everything that is decided before the scheduler starts
* `process`: leader election, signals, reloads, exit; `instance`: one scheduler within it
* `clients`: clients of the API server; `secure_port`: what is served; `version`: what `--version` says

It imports the scheduler and everything below, no simulator and no local cluster. Begin with `command`.
"""
