"""Kubernetes objects and the rules that belong to them alone: no I/O, no state.

Objects are frozen msgspec structs that declare only the fields the scheduler reads; unknown fields are
skipped while decoding, which is what makes decoding cheap.
"""
