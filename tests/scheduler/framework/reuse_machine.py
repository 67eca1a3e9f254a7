"""The state machine of stowplan.testing over all plugins and every way of filtering and scoring."""

from scheduler.framework.reuse_profiles import GENERAL, PROFILES, REGISTRY
from stowplan.testing.reuse_machine import ReuseMachine


class AllPlugins(ReuseMachine):
    profiles = PROFILES
    asked_profiles = sorted(GENERAL)
    registry = REGISTRY
