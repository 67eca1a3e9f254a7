"""Flags about optional behaviour."""

from typing import Final

from stowplan.framework.gates import GATES
from stowplan.run.flags.flag import Flag, Group
from stowplan.run.flags.kinds import STRINGS
from stowplan.run.flags.special import SETTINGS

_ONE_BEHAVIOUR: Final = "there is one behaviour, that of 1.36; switch single gates instead"


def _choices() -> str:
    """The gates that can be switched, one a line."""
    return "".join(
        f"\n{name}=true|false ({gate.stage.value.upper()} - default={str(gate.default).lower()})"
        for name, gate in sorted(GATES.items())
        if not gate.locked
    )


FEATURE_GATES: Final = Group(
    "feature gate",
    (
        Flag(
            "feature-gates",
            SETTINGS,
            (),
            "Gate=true or kube:Gate=false, several separated by commas; can be repeated. AllAlpha and "
            "AllBeta stand for all of a stage. Gates of other components are accepted without effect. "
            "Those of scheduling:" + _choices(),
        ),
        Flag(
            "emulated-version",
            STRINGS,
            (),
            "Version to behave like, from 1.33 to 1.36, as 1.NN or kube=1.NN.",
            ignored=_ONE_BEHAVIOUR,
        ),
        Flag(
            "min-compatibility-version",
            STRINGS,
            (),
            "Oldest version of the components around, from 1.33 up to the emulated one.",
            ignored=_ONE_BEHAVIOUR,
        ),
    ),
)
