"""The releases that tests run under.

Comparisons with recordings of kube-scheduler 1.36 take their release, gates or flags from here. A test that
shall hold in every release uses the fixture `each_release`, or is parametrized with EACH.
"""

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import RELEASES, Release, release

V1_36: Release = release("1.36")
V1_37: Release = release("1.37")
EACH: tuple[Release, ...] = tuple(RELEASES.values())

GATES_1_36 = FeatureGates(release=V1_36)
GATES_1_37 = FeatureGates(release=V1_37)

EMULATE_1_36 = "--emulated-version=1.36"
EMULATE_1_37 = "--emulated-version=1.37"
