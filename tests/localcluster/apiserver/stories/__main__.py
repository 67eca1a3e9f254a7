"""Plays the recorded stories.

`PYTHONPATH=src:tests python -m localcluster.apiserver.stories [--write] [TEXT]`

Shows how many answers are equal and what differs in the others. With a text only stories are played whose
name contains it; `--write` brings the list of known differences up to date.
"""

import sys

from localcluster.apiserver.stories.comparison import differences, listed_differences, write_differences
from localcluster.apiserver.stories.play import numbered, stories


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--write"]
    chosen = words[0] if words else ""
    found = differences(chosen)
    count = sum(1 for story in stories() if chosen in story.name for _ in numbered(story.steps))
    known = listed_differences()
    for story, steps in found.items():
        for step, difference in steps.items():
            mark = " " if step in known.get(story, {}) else "+"
            print(f"{mark} {story} {step}: {difference}")
    print(f"{count - sum(map(len, found.values()))} of {count} answers are equal")
    if "--write" in sys.argv and not chosen:
        write_differences(found)


if __name__ == "__main__":
    main()
