"""Feature gates: declared in `table`, with their stages and defaults by release.

* `table`: every gate, one line each: the place to declare one
* `history`: these lines as data: a gate at a release, what it needs, whether it changes anything here
* `feature_gates`: `FeatureGates`, which gates are on in one run; what the rest of stowplan is given
* `flag`: `--feature-gates`, read and checked as kube-scheduler does it

A release (`stowplan.api.releases`) takes its gates from `history`; `feature_gates` is above both.
"""
