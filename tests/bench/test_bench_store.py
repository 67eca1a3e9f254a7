"""The benchmark of the store."""

from stowplan.bench.store import measure_store


def test_the_store_costs_a_pod_microseconds_not_milliseconds() -> None:
    figures = measure_store(pods=1000, nodes=10)
    assert 0 < figures.create_and_bind_us < 1000
    assert 0 < figures.run_us + figures.delete_us < 1000
