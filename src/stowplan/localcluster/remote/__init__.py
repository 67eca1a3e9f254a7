"""Servers outside of this process that the API server calls: webhooks, and those behind APIServices.

`services` finds where a service is reached from this machine, `calls` sends it JSON over HTTPS.
"""
