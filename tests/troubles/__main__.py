"""Wrong answers of the corpus: `PYTHONPATH=tests python -m troubles [NAME…] [--size few|many]`.

`--write` keeps the result as `wrong.yaml`, the answers that are known not to be true yet. `--page` writes
docs/troubles.md instead.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from troubles.corpus import SIZES, Size, Trouble, troubles
from troubles.judging import Answer, Complaints, judged
from troubles.page import PAGE, page
from troubles.test_answers import instance_of
from troubles.world import world

HEAD = "# What is still wrong with the answers, by trouble and size.\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m troubles", description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--size", choices=SIZES)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--page", action="store_true")
    asked = parser.parse_args()
    if asked.page:
        return _write_page()
    names = [one.name for one in troubles() if not asked.names or one.name in asked.names]
    sizes: list[Size] = [asked.size] if asked.size else [*SIZES]
    cases = [(name, size) for name in names for size in sizes]
    lines = []
    with ProcessPoolExecutor(2) as pool:
        for (name, size), found in zip(cases, pool.map(_judged, cases), strict=True):
            bad = {aspect: texts for aspect, texts in found.items() if texts}
            if bad:
                lines.append(f"{name} {size}: [{', '.join(bad)}]\n")
            for aspect, texts in bad.items():
                for text in texts:
                    print(f"{name} {size}, {aspect}: {text}")
    print(f"{len(cases) - len(lines)} of {len(cases)} answers are true")
    if asked.write:
        (Path(__file__).parent / "wrong.yaml").write_text(HEAD + "".join(lines))
    return 1 if lines else 0


def _write_page() -> int:
    with ProcessPoolExecutor(2) as pool:
        found = zip((one.name for one in troubles()), pool.map(_told, troubles()), strict=True)
        PAGE.write_text(page(dict(found)))
    return 0


def _told(trouble: Trouble) -> str:
    with world(instance_of(trouble, "few")) as found:
        return Answer.of(found).text


def _judged(case: tuple[str, Size]) -> Complaints:
    name, size = case
    trouble = next(one for one in troubles() if one.name == name)
    return judged(instance_of(trouble, size))


if __name__ == "__main__":
    sys.exit(main())
