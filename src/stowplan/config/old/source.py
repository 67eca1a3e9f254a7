"""Where a configuration says its Policy is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stowplan.config.fields import Fields, refuse


@dataclass(frozen=True, slots=True)
class PolicyReference:
    """A file by its path, or a ConfigMap by namespace and name.

    `connection` is how the configuration says the API server is reached, as plain data.
    """

    path: str = ""
    namespace: str = ""
    name: str = ""
    connection: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        return self.path or f"ConfigMap {self.namespace}/{self.name}"


def read_reference(policy: Fields, connection: Any) -> PolicyReference:
    """What `algorithmSource.policy` refers to. Raises ConfigError."""
    file, configmap = policy.object("file"), policy.object("configMap")
    policy.done("the source of a Policy")
    if (file is None) == (configmap is None):
        refuse(policy.path, "expected one of file, configMap")
    if file is not None:
        path = file.text("path")
        file.done("a file")
        if not path:
            refuse(file.at("path"), "missing, expected the path of a Policy")
        return PolicyReference(path=path)
    assert configmap is not None
    namespace, name = configmap.text("namespace") or "kube-system", configmap.text("name")
    configmap.done("a ConfigMap")
    if not name:
        refuse(configmap.at("name"), "missing, expected the name of a ConfigMap")
    return PolicyReference(namespace=namespace, name=name, connection=connection)
