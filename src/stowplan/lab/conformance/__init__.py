"""Kubernetes' end-to-end tests against `stowplan up`: run by an `e2e.test` binary, one process for each test.

`suite` lists and runs the tests, `report` says how they ended. `excused.yaml` has the tests that cannot pass
here because they need a process in a container.
"""

from stowplan.lab.conformance.report import Excuses, report_of, table_of
from stowplan.lab.conformance.suite import E2eTests, Outcome, SuiteError, TestResult, run_all

__all__ = [
    "E2eTests",
    "Excuses",
    "Outcome",
    "SuiteError",
    "TestResult",
    "report_of",
    "run_all",
    "table_of",
]
