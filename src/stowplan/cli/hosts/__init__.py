"""Commands that run a scheduler, a cluster or parts of one."""
