"""Settings for all tests."""

import os

from hypothesis import settings

# A busy machine must not fail a test that is about something else. In CI the same examples are tried every
# time; elsewhere each run looks at new ones.
settings.register_profile("default", deadline=None, print_blob=True)
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")
