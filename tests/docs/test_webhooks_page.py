"""The page about webhooks shows the warnings as they are."""

from pathlib import Path
from random import Random

from localcluster.store.stores import HandClock
from localcluster.webhooks.hookserver import configuration, rule, webhook
from stowplan.api.catalogue import VALIDATING_WEBHOOK_CONFIGURATIONS
from stowplan.localcluster.admission.webhooks import WebhookStage
from stowplan.localcluster.customresources.definitions import NOT_CONVERTED
from stowplan.localcluster.remote.calls import RESPONSE_LIMIT, RemoteServers
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.attempts import LIMIT

PAGE = Path(__file__).parents[2] / "docs" / "webhooks.md"


def test_the_warnings_and_limits_of_the_page_are_those_of_the_server() -> None:
    text = PAGE.read_text()
    store = Store(HandClock(), Random(1))
    stage = WebhookStage(store, RemoteServers(store))
    client = {"service": {"name": "cert-manager-webhook", "namespace": "cert-manager"}}
    body = configuration("Validating", webhook(client, rule("pods")), name="cert-manager-webhook")
    [warning] = stage.notices(VALIDATING_WEBHOOK_CONFIGURATIONS, body)
    assert f"Warning: {warning}\n" in text
    assert f"Warning: {NOT_CONVERTED.format(name='queues.example.com')}\n" in text
    assert f"| {LIMIT:g} s |" in text
    assert f"| {RESPONSE_LIMIT >> 20} MiB |" in text
