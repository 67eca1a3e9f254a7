"""Authentication and authorization: users, tokens of service accounts, role-based access control.

`authentication` finds the user of a request, `rbac` decides if that user may do it, `escalation` if they may
grant the rights of a role or binding. `policy` has the roles every cluster begins with. Nothing here knows
HTTP: the API server calls it.
"""
