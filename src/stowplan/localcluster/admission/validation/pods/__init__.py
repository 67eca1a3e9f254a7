"""Validation of pods: `pods` has the rules of the whole, the others those of its parts and of updates."""
