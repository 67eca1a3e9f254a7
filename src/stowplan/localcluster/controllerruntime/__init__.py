"""The parts that every control loop is made of: shared informers, work queues, an event recorder.

Begin with `controller`: `Controller` is the base of all loops, `ControllerManager` runs them. A loop knows
the API server by `stowplan.client.interface` alone, so it runs against the store in this process and over
HTTP.
"""
