"""Managed fields are worked out late, by a request or by the thread that keeps objects, maybe at once."""

from typing import Any

import pytest

from stowplan.localcluster.apply import ManagedFields, managedfields
from stowplan.localcluster.apply.managedfields import NOBODY, Managers, Update
from stowplan.localcluster.apply.shapes import shape_of


def written(times: int) -> ManagedFields:
    """The managed fields of an object written by `times` managers, one after the other."""
    fields = NOBODY
    for number in range(times):
        shape = shape_of(None)
        fields = fields.after(
            Update(f"m{number}", "v1", "now", "", shape, {"a": number}, {"a": number + 1, f"b{number}": 1})
        )
    return fields


@pytest.mark.parametrize("turn", [1, 2, 4])
def test_who_shows_an_object_is_not_disturbed_by_who_does_so_at_the_same_time(
    turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one comes in between at some step, and has finished when the first one continues."""
    fields, expected = written(4), written(4).entries()
    real, steps = managedfields.after_update, 0
    others: list[Any] = []

    def interrupted(managers: Managers, update: Update) -> Managers:
        nonlocal steps
        steps += 1
        if steps == turn:
            others.append(fields.entries())
        return real(managers, update)

    monkeypatch.setattr(managedfields, "after_update", interrupted)
    assert fields.entries() == expected
    assert others == [expected]
    assert steps > 4
