"""`stowplan.framework` and its `advanced`: the names a plugin imports, as docs/plugins.md lists them."""

import re
from pathlib import Path
from types import ModuleType

import pytest

from stowplan import framework
from stowplan.framework import advanced

PAGE = Path(__file__).parents[3] / "docs" / "plugins.md"


@pytest.mark.parametrize(
    ("module", "title"),
    [(framework, "`stowplan.framework` has"), (advanced, "`stowplan.framework.advanced` has")],
    ids=["framework", "advanced"],
)
def test_the_page_lists_every_name(module: ModuleType, title: str) -> None:
    table = PAGE.read_text().partition(title)[2].partition("\n\n")[2].partition("\n\n")[0]
    listed = re.findall(r"`(\w+)`", table)
    assert sorted(listed) == sorted(module.__all__)
    assert all(hasattr(module, name) for name in listed)


def test_most_plugins_need_few_names() -> None:
    assert len(framework.__all__) <= 48
    assert not set(framework.__all__) & set(advanced.__all__)


def test_a_name_that_moved_to_advanced_is_still_found_with_a_warning() -> None:
    # mypy does not see it there, else it would report these ignores as unused.
    with pytest.warns(DeprecationWarning, match=r"import Placement from stowplan\.framework\.advanced"):
        assert framework.Placement is advanced.Placement  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="no attribute 'Placment'"):
        framework.Placment  # type: ignore[attr-defined] # noqa: B018
