"""Commands that run a scheduler (`run`), a cluster (`up`), or parts of one."""
