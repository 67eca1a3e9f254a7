"""Every trouble of the corpus at two sizes: the answer is true, and every remedy in it works."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from troubles.corpus import SIZES, Instance, Size, Trouble, named, troubles
from troubles.judging import Answer, judged
from troubles.world import world

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


def test_the_answer_on_the_first_screen_of_the_readme_is_an_answer() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text()
    shown = text.partition("$ kubectl why pod/infer -n shop\n")[2].partition("```")[0]
    with world(Instance.of([named("taint-of-the-selected-pool")], "many")) as found:
        said = Answer.of(found).text.replace("shop/web ", "shop/infer ").replace("pod/web ", "pod/infer ")
    lines = [line.rstrip() for line in said.splitlines()]
    for line in filter(None, shown.splitlines()):
        begin, left_out, end = line.partition("…,")
        assert any(one.startswith(begin) and one.endswith(end) for one in lines if left_out or one == line), (
            line
        )
