"""What a process says of its work: messages with a verbosity, and the lines they become."""

from stowplan.logs.journal import PROBLEM, Journal, Sink

__all__ = ["PROBLEM", "Journal", "Sink"]
