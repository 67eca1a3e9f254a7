"""Validation of resource.k8s.io: `devices` has the rules by kind, the others those of parts.

`deviceparts` is what requests, classes and slices share; of claims the status is in `claimstatus`.
"""
