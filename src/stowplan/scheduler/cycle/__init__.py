"""The scheduling cycle, without I/O: find a node, assume, reserve, permit; or fail and requeue.

Nothing here awaits or knows the client. A cycle is a plain call where nothing has to be waited for. Otherwise
it yields what it needs (`requests.py`, `extenders/requests.py`), and `scheduler/driver.py` does that. Begin
with `scheduling_cycle.py`.
"""
