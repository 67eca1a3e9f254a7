"""What a process says of its work: messages with a verbosity, and the lines they become."""

from stowplan.logs.journal import FATAL, PLAIN, PROBLEM, WARNING, Journal, Ref, Sink
from stowplan.logs.modules import Modules, parse_vmodule
from stowplan.logs.process import ProcessJournal, journal_for
from stowplan.logs.settings import LogSettings, Routing

__all__ = [
    "FATAL",
    "PLAIN",
    "PROBLEM",
    "WARNING",
    "Journal",
    "LogSettings",
    "Modules",
    "ProcessJournal",
    "Ref",
    "Routing",
    "Sink",
    "journal_for",
    "parse_vmodule",
]
