"""How much memory this process has, and has had."""

import resource
import sys
from pathlib import Path

MIB = 1 << 20


def peak_rss() -> int:
    """The most memory this process has held so far, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss() -> int:
    """The memory this process holds now, in bytes; where the system does not say, the most it has held."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak_rss()
    return pages * resource.getpagesize()
