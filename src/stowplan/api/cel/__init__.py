"""The Common Expression Language as Kubernetes uses it.

`devices` compiles and evaluates selectors of devices. Below it: `syntax`, `parser` and `macros`
(text to nodes), `types`, `declarations` and `checker` (their types), `values`, `functions`, `lookups` and
`program` (their results), `estimates` and `cost` (what they may cost and do cost).
"""
