"""Modules that run when they are used."""

import sys
from pathlib import Path

import pytest

from stowplan.runtime.lazy import lazy_module


def test_a_lazy_module_runs_when_something_of_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_load.py").write_text("import sys\nsys.has_run = True\nANSWER = 42\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "has_run", False, raising=False)
    module = lazy_module("slow_to_load")
    assert not sys.has_run  # type: ignore[attr-defined]
    assert module.ANSWER == 42
    assert sys.has_run  # type: ignore[attr-defined]
    assert lazy_module("slow_to_load") is module
    del sys.modules["slow_to_load"]


def test_a_module_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        lazy_module("stowplan.no_such_thing")
