"""Rights to write parts of the status of ResourceClaims, beyond the right to write it at all.

Schedulers allocate and reserve (`resourceclaims/binding`), drivers report their devices
(`resourceclaims/driver`, by the name of the driver): subresources that exist for authorization only.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from stowplan.api import status
from stowplan.api.catalogue import RESOURCE_CLAIMS, Resource
from stowplan.api.fielderrors import FieldError, forbidden
from stowplan.api.requests import Json
from stowplan.localcluster.auth.rbac import AccessRules, Attributes
from stowplan.localcluster.auth.rbac import forbidden as refusal_of
from stowplan.localcluster.auth.users import MASTERS, User, split_account_username
from stowplan.localcluster.store.writer import WriteContext

_NODE: Final = "authentication.kubernetes.io/node-name"
_DEVICE: Final = ("driver", "pool", "device", "shareID")


def check_status_writer(
    rules: Callable[[], AccessRules | None], resource: Resource, old: Json, new: Json, by: WriteContext
) -> None:
    """Raises `ApiError` 422 if a writer lacks the right to a change in the status of a claim.

    `rules` is called for the roles of the cluster only if they matter.
    """
    if resource != RESOURCE_CLAIMS or MASTERS in by.user.groups:
        return
    access = rules()
    if access is None:
        return
    before, after = old.get("status") or {}, new.get("status") or {}
    user = by.user if isinstance(by.user, User) else User(by.user.name, by.user.groups)
    namespace, name = old["metadata"]["namespace"], old["metadata"]["name"]
    errors = [*_binding_errors(access, user, by.verb, before, after)]
    if after.get("allocation") is not None:
        errors += _driver_errors(access, user, by.verb, namespace, before, after)
    if errors:
        raise status.invalid(resource, name, errors)


def _binding_errors(
    access: AccessRules, user: User, verb: str, before: Json, after: Json
) -> Iterator[FieldError]:
    if all(before.get(field) == after.get(field) for field in ("allocation", "reservedFor")):
        return
    why = _refusal(access, _attributes(user, verb, "binding"))
    if why:
        needed = f'requires resource="resourceclaims/binding", verb="{verb}" permission'
        yield forbidden(
            "status.allocation", f"changing status.allocation or status.reservedFor {needed}: {why}"
        )


def _driver_errors(
    access: AccessRules, user: User, verb: str, namespace: str, before: Json, after: Json
) -> Iterator[FieldError]:
    verbs = [f"arbitrary-node:{verb}"]
    if _is_on_node(user, after["allocation"]):
        verbs.insert(0, f"associated-node:{verb}")
    for driver in _changed_drivers(before, after):
        asked = [_attributes(user, each, "driver", namespace, driver) for each in verbs]
        refusals = [_refusal(access, each) for each in asked]
        if all(refusals):
            needed = f'requires resource="resourceclaims/driver", verb="[{" ".join(verbs)}]" permission'
            yield forbidden("status.devices", f"changing status.devices {needed}: {refusals[0]}")


def _attributes(user: User, verb: str, part: str, namespace: str = "", name: str = "") -> Attributes:
    group, plural = RESOURCE_CLAIMS.group, RESOURCE_CLAIMS.plural
    return Attributes(user, verb, group, plural, part, namespace, name)


def _refusal(access: AccessRules, wanted: Attributes) -> str:
    """Why something is refused, empty if it is not."""
    decision = access.decide(wanted)
    return "" if decision.allowed else refusal_of(wanted, decision.reason).message


def _changed_drivers(before: Json, after: Json) -> list[str]:
    """The drivers of which devices are reported that were not, or otherwise, or no longer are."""
    known, reported = _by_device(before), _by_device(after)
    changed = [key for key in {**known, **reported} if known.get(key) != reported.get(key)]
    return sorted({str(key[0]) for key in changed})


def _by_device(status: Json) -> dict[tuple[object, ...], Json]:
    return {tuple(one.get(part) for part in _DEVICE): one for one in status.get("devices") or ()}


def _is_on_node(user: User, allocation: Json) -> bool:
    """True if a service account is that of a pod on the one node of an allocation."""
    nodes: Sequence[str] = user.extra.get(_NODE, ())
    terms: Sequence[Json] = (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()
    if split_account_username(user.name) is None or len(nodes) != 1 or len(terms) != 1:
        return False
    fields: Sequence[Json] = terms[0].get("matchFields") or ()
    if terms[0].get("matchExpressions") or len(fields) != 1:
        return False
    field = fields[0]
    return (field.get("key"), field.get("operator"), field.get("values")) == ("metadata.name", "In", [*nodes])
