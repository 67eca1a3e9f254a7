"""Modules that are imported when a test uses them.

Every worker collects all tests: what one file needs and takes long to import would be imported by each.
"""

from importlib import import_module
from typing import Any


class Lazily:
    """A module that is imported at the first access."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
