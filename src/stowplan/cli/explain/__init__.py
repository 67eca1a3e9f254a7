"""Commands that explain and inspect a cluster."""
