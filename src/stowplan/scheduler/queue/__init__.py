"""The scheduling queue: pods that wait for a node, and when each is to be tried again.

It stands between the events that bring pods in and the scheduling cycle that takes the next one out. A pod
is ready (active), waits out a backoff after a failure, or waits until something happens in the cluster
that could make it schedulable. The queue decides nothing about nodes; time is handed in from outside.
"""
