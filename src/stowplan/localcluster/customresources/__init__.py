"""Custom resources: what CustomResourceDefinitions say about their objects.

`definitions` validates a definition, `versions` is what one version does to an object: prune, default,
validate, show. Schemas are in `structural`, `schemarules` and `validation`, CEL rules in `rules`. Nothing
here knows the store, which follows the definitions (`store.definitions`).
"""
