"""The package's imports match the dependencies in pyproject.toml."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {"PyYAML": "yaml", "prometheus-client": "prometheus_client"}
"""Distributions whose module has another name."""


OPTIONAL = {"kubernetes", "lightkube", "hypothesis", "distributed", "pyarrow", "pandas", "typing_extensions"}
"""Clients that the HTTP benchmark compares with ours, what `testing`, `sweep`, `dask` and `pandas` bring, and
names for type checkers."""


def declared() -> dict[str, str]:
    """Version ranges by the name of the module."""
    found = {}
    for text in PROJECT["dependencies"]:
        parts = re.fullmatch(r"([A-Za-z0-9_-]+)(.*)", text)
        assert parts is not None, text
        name, versions = parts.groups()
        found[MODULES.get(name, name)] = versions
    return found


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module at every depth, without their expressions: those are most of it."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        parts = getattr(tree, field, ())
        for part in parts if isinstance(parts, list) else ():
            yield part
            yield from statements(part)


def imported() -> set[str]:
    """Top-level modules that come neither with Python nor with this package."""
    found = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in statements(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"stowplan"}


def test_everything_imported_is_declared_and_everything_declared_is_imported() -> None:
    assert imported() - OPTIONAL == set(declared())


def test_aiohttp_is_used_only_up_to_the_next_major_version() -> None:
    """The secure port subclasses its request handler."""
    assert "<4" in declared()["aiohttp"].split(",")
