"""Admission webhooks: MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

`hooks` has the compiled configurations of a store, `reviews` what is sent and what may come back, `stage` the
order in which webhooks are called and the treatment of their answers.
"""

from stowplan.localcluster.admission.webhooks.stage import WebhookStage

__all__ = ["WebhookStage"]
