"""Plays stories and says what is different; without a prefix of their names, all of them.

PYTHONPATH=src:tests python -m localcluster.controllers.stories [PREFIX ...]
"""

import sys

from localcluster.controllers.stories.virtual import play_stories

for prefix in sys.argv[1:] or [""]:
    outcomes = play_stories(prefix)
    for name, found in outcomes.items():
        print(f"{name}: {'equal' if not found else f'{len(found)} differences'}", *found, sep="\n    ")
    print(f"{sum(not found for found in outcomes.values())} of {len(outcomes)} equal")
