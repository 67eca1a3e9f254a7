"""Facts about objects that admission, controllers and kubelets share: JSON in, values out; no I/O, no store.

* `fields`: owners, conditions, and the state of a pod
* `groupfeatures`, `groupclaims`: pod groups: the parts that gates turn on, and claims of groups
* `cron`: schedules of CronJobs
* `usage`: the pretended CPU and memory of pods
"""
