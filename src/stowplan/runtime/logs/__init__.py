"""Logging: messages with a verbosity and named values, in klog's text format or as JSON.

* `logger`: the logger that the rest of the code uses
* `settings`: what flags say; `process`: the logger of a process with these settings
* `formats`: messages to lines; `streams`: lines to file descriptors
* `tracebacks`: errors with their tracebacks, of bounded size
"""

from stowplan.runtime.logs.logger import ERROR, FATAL, PLAIN, WARNING, Logger, Ref, Sink
from stowplan.runtime.logs.process import ProcessLogger, logger_for
from stowplan.runtime.logs.settings import LogSettings, Modules, Routing, parse_vmodule

__all__ = [
    "ERROR",
    "FATAL",
    "PLAIN",
    "WARNING",
    "LogSettings",
    "Logger",
    "Modules",
    "ProcessLogger",
    "Ref",
    "Routing",
    "Sink",
    "logger_for",
    "parse_vmodule",
]
