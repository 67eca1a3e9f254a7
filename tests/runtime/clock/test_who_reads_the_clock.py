"""Time is an argument: below `server` only runtime/clock reads the machine's clock."""

import ast
from pathlib import Path

import pytest

import stowplan

SOURCE = Path(stowplan.__file__).parent

BELOW_SERVER = (
    "contrib",
    "framework",
    "explain",
    "scheduler",
    "config",
    "client",
    "api",
    "gocompat",
    "runtime",
)
READERS = {
    "time": {
        "clock_gettime",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "process_time",
        "thread_time",
        "time",
        "time_ns",
    },
    "datetime": {"now", "today", "utcnow"},
    "date": {"today"},
}


def reads(tree: ast.AST) -> list[str]:
    """Every mention of a function that reads a clock."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            found += [alias.name for alias in node.names if alias.name in READERS["time"]]
        if isinstance(node, ast.Attribute):
            owner = node.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            if node.attr in READERS.get(name, ()):
                found.append(f"{name}.{node.attr}")
    return found


@pytest.mark.parametrize("package", BELOW_SERVER)
def test_nothing_below_the_server_reads_the_clock(package: str) -> None:
    found = {
        path.relative_to(SOURCE).as_posix(): names
        for path in (SOURCE / package).rglob("*.py")
        if not path.relative_to(SOURCE).as_posix().startswith("runtime/clock/")
        and (names := reads(ast.parse(path.read_text())))
    }
    assert not found


def test_the_machines_clock_is_found() -> None:
    clocks = (SOURCE / "runtime" / "clock" / "clocks.py").read_text()
    assert "time.time" in reads(ast.parse(clocks))
