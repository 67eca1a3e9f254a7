"""Commands that simulate a cluster, and those that record, replay and shadow one."""
