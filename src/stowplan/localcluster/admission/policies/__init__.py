"""Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings.

`hooks` compiles them and finds those that match a request, `mutating` applies patches, `validating` refuses,
warns and audits.
"""

from collections.abc import Callable

from stowplan.localcluster.admission.attributes import AdmissionAttributes
from stowplan.localcluster.admission.expressions import RequestVariables
from stowplan.localcluster.admission.matching import is_exempt
from stowplan.localcluster.admission.policies.mutating import MutatingPolicies
from stowplan.localcluster.admission.policies.validating import ValidatingPolicies
from stowplan.localcluster.auth.rbac import AccessRules
from stowplan.localcluster.store import Store


class AdmissionPolicies:
    """The policies of one store as a stage of admission. They never apply to policies and webhooks."""

    def __init__(self, store: Store, access: Callable[[], AccessRules | None]) -> None:
        self._mutating = MutatingPolicies(store, self._changed)
        self._validating = ValidatingPolicies(store, self._changed)
        self._access = access
        self.is_active = self._mutating.is_active or self._validating.is_active

    def _changed(self) -> None:
        self.is_active = self._mutating.is_active or self._validating.is_active

    def mutate(self, write: AdmissionAttributes) -> bool:
        if not self._mutating.is_active or is_exempt(write.resource):
            return False
        return self._mutating.mutate(write, RequestVariables(write, self._access))

    def validate(self, write: AdmissionAttributes) -> None:
        if self._validating.is_active and not is_exempt(write.resource):
            self._validating.validate(write, RequestVariables(write, self._access))
