"""Watchers of a store never get anything wrong, twice, late or not at all."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from effort import LONG, examples
from localcluster.store.machine import StoreMachine
from stowplan.localcluster.store.watchcache import ChangeHistory, StoreChange, Watcher

SHORT = settings(
    max_examples=60,
    stateful_step_count=40,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
FAR = settings(SHORT, max_examples=examples(60), stateful_step_count=80, derandomize=False)


def test_the_store_and_its_watchers_follow_the_model() -> None:
    run_state_machine_as_test(StoreMachine, settings=FAR if LONG else SHORT)


def _tells_late(original: Callable[..., Any]) -> Callable[..., Any]:
    def tell(self: Watcher, change: StoreChange) -> None:
        if change.version % 7:
            original(self, change)

    return tell


def _forgets(original: Callable[..., Any]) -> Callable[..., Any]:
    def since(self: ChangeHistory, version: int) -> list[StoreChange]:
        return [change for change in original(self, version) if change.version % 7]

    return since


@pytest.mark.parametrize(
    ("owner", "method", "spoil"), [(Watcher, "deliver", _tells_late), (ChangeHistory, "since", _forgets)]
)
def test_a_store_that_loses_changes_is_found_out(
    owner: type, method: str, spoil: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proof that the test above can fail."""
    monkeypatch.setattr(owner, method, spoil(getattr(owner, method)))
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            StoreMachine, settings=settings(SHORT, max_examples=600, phases=[Phase.generate])
        )
