"""A failing seed reproduces: a run is the same, write for write, anywhere and at any time."""

import os
import subprocess
import sys

import pytest

from stowplan.lab.chaos import ChaosPlan, execute, plan_of

_RUN = """
import sys
from stowplan.lab.chaos import execute, plan_of
for seed in map(int, sys.argv[1:]):
    print(execute(plan_of(seed)).digest)
"""

# Two extenders; two profiles with a plugin that fails; an API server that refuses and loses writes,
# and volumes.
SEEDS = ("7", "0", "69")


def _digests(hash_seed: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *SEEDS],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


def test_a_run_is_the_same_in_another_process_with_other_hashes() -> None:
    first, second = _digests("1"), _digests("4711")
    assert first == second
    assert len(set(first)) == len(SEEDS)
    assert first[0] == execute(plan_of(int(SEEDS[0]))).digest


def test_the_seeds_are_about_different_things() -> None:
    extended, faulty, bad = (plan_of(int(seed)) for seed in SEEDS)
    assert len(extended.extenders) == 2
    assert len(faulty.faulty_profiles) == 2
    assert all(phase.refused and phase.lost for phase in bad.phases)
    assert bad.storage is not None


def test_seeds_differ() -> None:
    assert plan_of(1) != plan_of(2)
    assert plan_of(1) == plan_of(1)


@pytest.mark.parametrize("seed", [3, 98])
def test_a_kept_log_changes_nothing(seed: int) -> None:
    with_log = execute(plan_of(seed), keep_log=True)
    assert with_log.log
    assert with_log.digest == execute(plan_of(seed)).digest


def test_a_plan_is_plain_data() -> None:
    plan: ChaosPlan = plan_of(5)
    lines = plan.text().splitlines()
    assert len(lines) == 1 + len(plan.actions)
    assert '"seed":5' in lines[0]
