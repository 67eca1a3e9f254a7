"""Scenarios: a cluster, what arrives in it and what fails, under the real scheduler in virtual time.

* `model`, `recorded`: the file, or a recording
* `world`, `autoscaler`, `agenda`, `objects`: the run
* `admission`: what the API server makes of its pods, and which it refuses
* `measures`, `report`, `comparison`: its results
* `sweep`, `combined`: many runs, and their results together
"""

from stowplan.simulate.scenario.measures import Measures
from stowplan.simulate.scenario.model import Scenario, read_scenario
from stowplan.simulate.scenario.report import report_of
from stowplan.simulate.scenario.world import check, run

__all__ = ["Measures", "Scenario", "check", "read_scenario", "report_of", "run"]
