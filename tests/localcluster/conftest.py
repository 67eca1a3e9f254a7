"""One server for the tests of a module; each test makes its own objects."""

from collections.abc import Iterator

import pytest

from localcluster.apiserver.served import Served, serving


@pytest.fixture(scope="module")
def api() -> Iterator[Served]:
    with serving() as served:
        yield served
