"""Settings for all tests."""

import gc
import os
import signal
from collections.abc import Generator
from functools import partial
from typing import Any

import pytest
from hypothesis import settings

import preforked
from distribution import Distribution
from effort import LONG
from releases import EACH
from stowplan.api.releases import Release

# A busy machine must not fail a test that is about something else. In CI the same examples are tried every
# time; elsewhere each run looks at new ones.
settings.register_profile("default", deadline=None, print_blob=True, max_examples=50)
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True, database=None)
settings.load_profile("ci" if os.environ.get("CI") else "default")

pytest.register_assert_rewrite("scheduler.comparable_writes", "scheduler.comparable_objects")
"""Comparisons of these modules show what differs."""


class Frozen:
    """Leaves all tests and their imports out of garbage collection.

    That is a million objects: without this, a test that collects garbage ten times takes seconds. Objects
    that tests leave behind (caches, modules) are left out some tests later. The code under test freezes and
    unfreezes too (`stowplan.runtime.gc_tuning`); here that is only noted, or each test after it would scan
    the million again. Tests of the collector run in separate processes.
    """

    EVERY = 200
    """Tests between two times; with fewer the collections for it cost more than they save."""

    def __init__(self) -> None:
        self._freeze = gc.freeze
        self._tests = 0
        self._frozen = 0
        setattr(gc, "freeze", partial(setattr, self, "_frozen", 1))  # noqa: B010
        setattr(gc, "unfreeze", partial(setattr, self, "_frozen", 0))  # noqa: B010
        setattr(gc, "get_freeze_count", lambda: self._frozen)  # noqa: B010

    def freeze(self) -> None:
        self._freeze()

    def before_test(self) -> None:
        self._frozen = 0
        if not self._tests % self.EVERY:
            gc.collect()
            self._freeze()
        self._tests += 1


_FROZEN = Frozen()


def pytest_configure(config: pytest.Config) -> None:
    """The limit of seconds for a test is for the usual effort.

    Shells have what they start in the background ignore SIGINT, and so would all processes that tests start
    and interrupt.
    """
    if LONG or "STOWPLAN_OUTAGE" in os.environ:
        config.option.timeout = 0
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not LONG and not any(name.startswith("COVERAGE_PROCESS") for name in os.environ):
        preforked.install()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests without garbage collection, which would take a third of that time in each worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    _FROZEN.before_test()


def pytest_sessionfinish() -> None:
    """pytest collects garbage five times at its end; what is left belongs to modules and caches."""
    _FROZEN.freeze()
    preforked.end()


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Distribution:
    return Distribution(config, log)


@pytest.fixture(params=EACH, ids=lambda one: one.name)
def each_release(request: pytest.FixtureRequest) -> Release:
    """Runs a test once under every release."""
    release: Release = request.param
    return release
