"""The core does no I/O: its modules contain no await, and what they need from outside they yield."""

import ast
from pathlib import Path

import pytest

import stowplan.scheduler

SCHEDULER = Path(stowplan.scheduler.__file__).parent

OUTSIDE = {
    "framework/extension_points.py",  # PreBind, Bind and PostBind
    "framework/interface.py",  # what plugins may await
    "framework/waiting_pods.py",  # the wait at Permit, in the binding cycle
    "pod_groups/status.py",  # writes conditions in the background
}

MODULES = [
    path.relative_to(SCHEDULER).as_posix()
    for folder in ("cycle", "pod_groups", "queue", "framework")
    for path in (SCHEDULER / folder).rglob("*.py")
]
CORE = sorted({*MODULES, "cache.py", "node_sampler.py"} - OUTSIDE)

ASYNC = (ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith, ast.Await)


@pytest.mark.parametrize("module", CORE)
def test_a_module_of_the_core_neither_awaits_nor_imports_asyncio(module: str) -> None:
    tree = ast.parse((SCHEDULER / module).read_text())
    waits = [node.lineno for node in ast.walk(tree) if isinstance(node, ASYNC)]
    assert not waits
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert "asyncio" not in names


def test_modules_that_may_wait_do() -> None:
    for module in OUTSIDE:
        tree = ast.parse((SCHEDULER / module).read_text())
        assert any(isinstance(node, ASYNC) for node in ast.walk(tree)), f"{module} is part of the core by now"
