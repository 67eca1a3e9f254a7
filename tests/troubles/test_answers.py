"""Every trouble of the corpus at two sizes: the answer is true, and every remedy in it works."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from troubles.corpus import SIZES, Instance, Size, Trouble, troubles
from troubles.judging import judged

WRONG: dict[str, list[str]] = yaml.safe_load((Path(__file__).parent / "wrong.yaml").read_text()) or {}
"""Aspects that are still wrong, by `trouble size`."""


def instance_of(trouble: Trouble, size: Size) -> Instance:
    """In the large cluster the ordinary pod belongs to a Deployment: remedies are for its template then."""
    return Instance.of([trouble], size, owned=size == "many" and trouble.pod is not None)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("trouble", troubles(), ids=lambda one: one.name)
def test_the_answer_is_true_and_its_remedies_work(trouble: Trouble, size: Size) -> None:
    complaints: dict[Any, list[str]] = dict(judged(instance_of(trouble, size)))
    known = WRONG.get(f"{trouble.name} {size}", [])
    new = [text for aspect, texts in complaints.items() if aspect not in known for text in texts]
    assert not new, "\n".join(new)
    if any(complaints.values()):
        pytest.xfail(", ".join(aspect for aspect, texts in complaints.items() if texts))
