"""Tables of the bindings of rbac.authorization.k8s.io; roles have no columns of their own."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.api import catalogue
from stowplan.api.catalogue import Resource
from stowplan.api.requests import Json
from stowplan.localcluster.apiserver.tables.columns import AGE, NAME, TableColumn


def _role(binding: Json, now: float) -> str:
    role = binding["roleRef"]
    return f"{role['kind']}/{role['name']}"


def _subjects(kind: str) -> Any:
    """The cell with the subjects of one kind; service accounts with their namespaces."""

    def cell(binding: Json, now: float) -> str:
        found = [subject for subject in binding.get("subjects") or () if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{subject.get('namespace', '')}/{subject['name']}" for subject in found)
        return ", ".join(subject["name"] for subject in found)

    return cell


BINDINGS: Final = (
    NAME,
    TableColumn("Role", _role),
    AGE,
    TableColumn("Users", _subjects("User"), usual=False),
    TableColumn("Groups", _subjects("Group"), usual=False),
    TableColumn("ServiceAccounts", _subjects("ServiceAccount"), usual=False),
)

COLUMNS: Final[Mapping[Resource, Sequence[TableColumn]]] = {
    catalogue.ROLE_BINDINGS: BINDINGS,
    catalogue.CLUSTER_ROLE_BINDINGS: BINDINGS,
}
