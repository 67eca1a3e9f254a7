"""Schedulers on bad days: random clusters, random faults, and what must hold whatever happens."""
