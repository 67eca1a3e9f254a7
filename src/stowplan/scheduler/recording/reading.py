"""Replaying whole recordings: the configuration that was recorded, and the decisions one after the other."""

from collections.abc import Sequence
from pathlib import Path

from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import RELEASES
from stowplan.config import load
from stowplan.runtime.clock import VirtualClock, run
from stowplan.scheduler import Settings
from stowplan.scheduler.framework.interface import Plugin
from stowplan.scheduler.recording.files import Header, RecordingError, sessions
from stowplan.scheduler.recording.replay import Decision, Replay


def settings_of(header: Header, plugins: Sequence[type[Plugin]] = (), place: str = "recording") -> Settings:
    """The settings of a recorded scheduler. Raises RecordingError, ConfigError."""
    missing = sorted(set(header.plugins) - {plugin.name for plugin in plugins})
    if missing:
        raise RecordingError(
            f"{place}: expected the plugin {missing[0]}, which it was recorded with (--plugin)"
        )
    release = RELEASES.get(header.release)
    if release is None:
        raise RecordingError(
            f"{place}: recorded as Kubernetes {header.release}: expected {', '.join(RELEASES)}"
        )
    gates = FeatureGates({name: on for name, on in header.gates.items() if name in release.gates}, release)
    return Settings.of(load(header.config, gates), plugins, longest_wait=header.longest_wait)


def decisions(
    path: str | Path, *, settings: Settings | None = None, plugins: Sequence[type[Plugin]] = ()
) -> list[Decision]:
    """Replay a recording and give back its decisions, each as recorded and as replayed.

    With other `settings` than the recorded ones the replay ends where it cannot follow the recording. Raises
    RecordingError.
    """
    found: list[Decision] = []
    for session in sessions(Path(path)):
        replay = Replay(session, settings or settings_of(session.header, plugins, str(path)))

        async def play(clock: VirtualClock, replay: Replay = replay) -> None:
            async for decision in replay.decisions():
                found.append(decision)

        run(play)
    return found
