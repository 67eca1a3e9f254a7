"""Parsers fed with arbitrary bytes, compared with other libraries where there are any.

A target (target.py) is a parser with seeds and an oracle: texts (texts.py), connections (framing.py), objects
(objects.py) and CEL (expressions.py). `stowplan lab fuzz --target` and the tests mutate seeds (mutation.py);
with atheris installed the campaign is guided by coverage (guided.py).
"""

from typing import Final

from stowplan.lab.fuzz.targets.expressions import EXPRESSIONS
from stowplan.lab.fuzz.targets.framing import FRAMING
from stowplan.lab.fuzz.targets.objects import OBJECTS
from stowplan.lab.fuzz.targets.target import FuzzTarget, Violation
from stowplan.lab.fuzz.targets.texts import TEXTS

TARGETS: Final[dict[str, FuzzTarget]] = {
    target.name: target for target in (*OBJECTS, *TEXTS, *EXPRESSIONS, *FRAMING)
}

__all__ = ["TARGETS", "FuzzTarget", "Violation"]
