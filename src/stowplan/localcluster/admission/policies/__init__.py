"""Admission policies: ValidatingAdmissionPolicy and MutatingAdmissionPolicy with their bindings.

`hooks` compiles them and finds those that match a request, `mutating` applies patches, `validating` refuses,
warns and audits.
"""

from collections.abc import Callable, Set
from typing import Final

from stowplan.localcluster.admission.attributes import AdmissionAttributes
from stowplan.localcluster.admission.expressions import RequestVariables
from stowplan.localcluster.admission.matching import is_exempt
from stowplan.localcluster.admission.policies.mutating import MutatingPolicies
from stowplan.localcluster.admission.policies.validating import ValidatingPolicies
from stowplan.localcluster.auth.rbac import AccessRules
from stowplan.localcluster.store import Store

MUTATING: Final = "MutatingAdmissionPolicy"
VALIDATING: Final = "ValidatingAdmissionPolicy"
POLICY_KINDS: Final = frozenset((MUTATING, VALIDATING))


class AdmissionPolicies:
    """The policies of one store as a stage of admission. They never apply to policies and webhooks.

    `kinds` are the kinds of policies that have an effect.
    """

    def __init__(
        self, store: Store, access: Callable[[], AccessRules | None], kinds: Set[str] = POLICY_KINDS
    ) -> None:
        self._mutating = MutatingPolicies(store, self._changed)
        self._validating = ValidatingPolicies(store, self._changed)
        self._kinds = kinds
        self._access = access
        self.is_active = False
        self._changed()

    def _changed(self) -> None:
        self._mutates = MUTATING in self._kinds and self._mutating.is_active
        self._validates = VALIDATING in self._kinds and self._validating.is_active
        self.is_active = self._mutates or self._validates

    def mutate(self, write: AdmissionAttributes) -> bool:
        if not self._mutates or is_exempt(write.resource):
            return False
        return self._mutating.mutate(write, RequestVariables(write, self._access))

    def validate(self, write: AdmissionAttributes) -> None:
        if self._validates and not is_exempt(write.resource):
            self._validating.validate(write, RequestVariables(write, self._access))
