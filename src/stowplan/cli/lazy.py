"""Commands of a group that are imported when they are used."""

from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module

import click


class Commands(MutableMapping[str, click.Command]):
    """Commands by name, loaded on first use.

    Most of them need NumPy and take their time; `stowplan run --version` does not.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            self._loaded[name] = getattr(import_module(module), attribute)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._places, *self._loaded)))

    def __len__(self) -> int:
        return len(self._places.keys() | self._loaded.keys())
