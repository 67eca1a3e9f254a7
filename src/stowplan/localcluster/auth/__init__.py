"""Who may do what: users, tokens of service accounts, role-based access control.

`authentication` says whose request it is, `rbac` whether that user may do it, `escalation` whether they may
hand on the rights that a role or binding grants. `policy` has the roles every cluster begins with. Nothing
here knows HTTP: the API server asks.
"""
