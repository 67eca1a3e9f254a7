"""The dashboard and the alerts name metrics and labels that exist, and every alert has a runbook entry."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from deploy.manifests import DEPLOY, ROOT
from stowplan.scheduler.metrics.catalogue import SCHEDULING
from stowplan.scheduler.metrics.descriptions import MetricDescription
from stowplan.scheduler.metrics.process_catalogue import HEALTH, PROCESS

KNOWN = {one.full_name: one for catalogue in (SCHEDULING, PROCESS, HEALTH) for one in catalogue.all}
OF_EVERY_PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
"""Families of the client library of Prometheus."""
OF_EVERY_TARGET = {"job", "instance", "le"}
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text()
ALERTS = yaml.safe_load((DEPLOY / "monitoring" / "rules.yaml").read_text())["groups"][0]["rules"]
DASHBOARD = json.loads((DEPLOY / "monitoring" / "dashboard.json").read_text())

_SELECTOR = re.compile(r"([a-z_][a-z0-9_]{5,})(?:\{([^}]*)\})")
_GROUPING = re.compile(r"\bby \(([^)]*)\)")


def expressions() -> Iterator[tuple[str, str]]:
    """Where it is, and a query."""
    for rule in ALERTS:
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def described(name: str) -> MetricDescription | None:
    """The family of a series; None if it is one of every process."""
    if name in OF_EVERY_PROCESS:
        return None
    family = KNOWN.get(name) or KNOWN[re.sub(r"_(bucket|sum|count)$", "", name)]
    assert bool(family.bounds) == (name != family.full_name), f"{name}: histograms are asked by their series"
    return family


@pytest.mark.parametrize(("place", "query"), list(expressions()))
def test_every_query_names_metrics_and_labels_that_exist(place: str, query: str) -> None:
    found = _SELECTOR.findall(query)
    assert found, f"{place}: no metric in {query}"
    labels: set[str] = set()
    for name, selector in found:
        family = described(name)
        own = set() if family is None else set(family.labels)
        assert set(re.findall(r"(\w+)\s*=", selector)) <= own | OF_EVERY_TARGET, f"{place}: {name}"
        labels |= own
    for group in _GROUPING.findall(query):
        assert {name.strip() for name in group.split(",")} <= labels | OF_EVERY_TARGET, place


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_every_alert_has_a_severity_and_a_runbook_entry(rule: Any) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"]["summary"].endswith(".")
    file, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert (file, anchor) == ("docs/runbook.md", rule["alert"].lower())
    assert f"\n## {rule['alert']}\n" in RUNBOOK


def test_every_alert_of_the_runbook_exists() -> None:
    assert set(re.findall(r"^## (Stowplan\w+)$", RUNBOOK, flags=re.MULTILINE)) == {
        one["alert"] for one in ALERTS
    }


def test_panels_can_be_told_apart() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len({panel["title"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
