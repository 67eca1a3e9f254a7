"""Whatever happens, what must hold does: `stowplan.lab.chaos` says what happens, and what must hold."""

import random

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from effort import examples
from stowplan.lab.chaos import execute, make_plan, plan_of

BATCH = 12
BATCHES = 3


@pytest.mark.parametrize("batch", range(examples(BATCHES)))
def test_seeds_hold(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        outcome = execute(plan_of(seed))
        assert outcome.ok, f"seed {seed}: {outcome.findings[0]}"


# In 5 a claim loses its devices while it is being allocated, in 231 extenders reject every candidate for
# preemption, in 516 the answer to a write is lost and the read after it refused.
@pytest.mark.parametrize("seed", [5, 231, 516])
def test_seeds_with_claims_hold(seed: int) -> None:
    outcome = execute(plan_of(seed, claims=True))
    assert outcome.ok, f"seed {seed}: {outcome.findings[0]}"


@settings(max_examples=examples(12), report_multiple_bugs=False, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(0, 2**32))
def test_plans_hold(rng: random.Random, seed: int) -> None:
    """Like the above, with plans that hypothesis makes, varies and cuts down to what matters."""
    plan = make_plan(rng, seed)
    outcome = execute(plan)
    note(plan.text())
    assert outcome.ok, str(outcome.findings[0])
