"""Logging: messages with a verbosity and named values, in klog's text format or as JSON.

* `journal`: the logger that the rest of the code uses
* `settings`: what flags say; `process`: the logger of a process with these settings
* `formats`: messages to lines; `streams`: lines to file descriptors
"""

from stowplan.logs.journal import FATAL, PLAIN, PROBLEM, WARNING, Journal, Ref, Sink
from stowplan.logs.process import ProcessJournal, journal_for
from stowplan.logs.settings import LogSettings, Modules, Routing, parse_vmodule

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
