"""Commands that explain and inspect a cluster.

They ask a running scheduler (`running`) or evaluate a cluster themselves (`offline`); `targets` says
which.
"""
