"""Validation of everything that makes pods, and of groups of pods: apps, batch, autoscaling, scheduling."""
