"""Recorded decisions: scenarios replayed and compared, one line of a recording at a time."""

from stowplan.api.decode import DecodeError
from stowplan.config import ConfigError
from stowplan.framework.errors import ProfileError
from stowplan.verify.compare import compare, count_not_built
from stowplan.verify.recording import Line
from stowplan.verify.replay import Replay, ScenarioError
from stowplan.verify.report import Report
from stowplan.verify.scenario import Scenario, decode_scenario


def replay_line(line: Line, report: Report) -> None:
    """Replay the scenario of a line into a report. Raises RecordingError."""
    try:
        replay(line.family, decode_scenario(line.data), report)
    except (ConfigError, ProfileError) as error:
        raise line.error(f"config: {error}") from None
    except (DecodeError, ScenarioError) as error:
        raise line.error(error) from None


def replay(family: str, scenario: Scenario, report: Report) -> None:
    """Replay a scenario, or count its decisions as not built if they need more than nodes and pods."""
    if scenario.prebind:
        for expected in scenario.expected:
            count_not_built(report, family, expected)
        return
    under_way = Replay(scenario)
    for position, expected in enumerate(scenario.expected):
        where = f"{scenario.name}, {expected.pod}, attempt {expected.attempt}"
        compare(report, family, where, expected, under_way.attempt(expected))
        under_way.settle(expected, position)
