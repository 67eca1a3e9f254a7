"""Admission webhooks that would be called for a pod: nobody knows what they change or refuse."""

from collections.abc import Mapping
from typing import Final

from stowplan.api.catalogue import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS
from stowplan.api.labels import SelectorError, compile_selector
from stowplan.api.meta import LabelSelector, Object, Struct
from stowplan.api.pod import Pod
from stowplan.explain.layers.reads import ObjectReads


class Rule(Struct, frozen=True):
    """Requests that a webhook is called for."""

    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()

    @property
    def is_about_new_pods(self) -> bool:
        return (
            not {"", "*"}.isdisjoint(self.api_groups)
            and not {"pods", "*", "*/*"}.isdisjoint(self.resources)
            and not {"CREATE", "*"}.isdisjoint(self.operations)
        )


class Webhook(Struct, frozen=True):
    name: str = ""
    rules: tuple[Rule, ...] = ()
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None


class WebhookConfiguration(Object, frozen=True):
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""

    webhooks: tuple[Webhook, ...] = ()


_MAY: Final = (
    (MUTATING_WEBHOOK_CONFIGURATIONS, "change or refuse"),
    (VALIDATING_WEBHOOK_CONFIGURATIONS, "refuse"),
)


async def webhooks_not_called(
    pod: Pod, namespaces: Mapping[str, Mapping[str, str]], reads: ObjectReads
) -> list[str]:
    """A line for each webhook that creating a pod would call. `namespaces` have their labels."""
    found: dict[str, None] = {}
    for resource, may in _MAY:
        for configuration in await reads.list(resource, WebhookConfiguration):
            for one in configuration.webhooks:
                if _is_called(one, pod, namespaces.get(pod.namespace, {})):
                    found[f"webhook {one.name} is not called: it may {may} the pod"] = None
        if resource.plural in reads.unread:
            found[f"{reads.unread[resource.plural]}: they may {may} the pod"] = None
    return [*found]


def _is_called(webhook: Webhook, pod: Pod, labels: Mapping[str, str]) -> bool:
    if not any(rule.is_about_new_pods for rule in webhook.rules):
        return False
    return _selects(webhook.namespace_selector, labels) and _selects(
        webhook.object_selector, pod.metadata.labels
    )


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """True if labels are selected; an absent selector selects everything here."""
    if selector is None:
        return True
    try:
        return compile_selector(selector).matches(labels)
    except SelectorError:
        return True
