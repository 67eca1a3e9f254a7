"""KubeSchedulerConfiguration v1 as Python structs.

Field defaults are those of an absent field if that is a constant; `defaults.py` fills in the rest (fields
that depend on others, and the plugins).
"""

from typing import Any

from msgspec import field

from stowplan.api.meta import Struct
from stowplan.gocompat.durations import Duration
from stowplan.scheduler.framework.interface import MULTI_POINT, ExtensionPoint

GROUP = "kubescheduler.config.k8s.io"
API_VERSION = f"{GROUP}/v1"
KIND = "KubeSchedulerConfiguration"


class LeaderElection(Struct, frozen=True):
    """The lease that decides which of several schedulers works."""

    leader_elect: bool = True
    lease_duration: Duration = Duration.of_seconds(15)
    renew_deadline: Duration = Duration.of_seconds(10)
    retry_period: Duration = Duration.of_seconds(2)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(Struct, frozen=True):
    """How the API server is reached, and how hard it may be used."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: int = 100


class Plugin(Struct, frozen=True):
    """A plugin named in a list, with the weight it has at score points (0: unset)."""

    name: str = ""
    weight: int = 0


class PluginSet(Struct, frozen=True):
    """Enabled and disabled plugins at one extension point."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(Struct, frozen=True):
    """The plugin lists of a profile: one per extension point, and `multiPoint` for all points at once.

    A list that is None is of an extension point that the release does not have.
    """

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    pod_group_post_filter: PluginSet | None = None

    def at(self, section: str) -> PluginSet:
        """The list of a section: an extension point or `multiPoint`."""
        plugin_set: PluginSet | None = getattr(self, ATTRIBUTES[section])
        return PluginSet() if plugin_set is None else plugin_set


ATTRIBUTES = {
    name: attribute
    for attribute, name in zip(Plugins.__struct_fields__, Plugins.__struct_encode_fields__, strict=True)
}
SECTIONS: tuple[str, ...] = (*ExtensionPoint, MULTI_POINT)


class PluginConfig(Struct, frozen=True):
    """The arguments of one plugin: typed for in-tree plugins that have any, plain data for others."""

    name: str = ""
    args: Any = None


class Profile(Struct, frozen=True):
    """A scheduler name and the plugins that schedule the pods carrying it. None: not given."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] = ()


class ExtenderManagedResource(Struct, frozen=True):
    """An extended resource that an extender looks after."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLS(Struct, frozen=True):
    """TLS towards an extender. Data takes precedence over the file of the same purpose."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(Struct, frozen=True):
    """An HTTP service that takes part in scheduling; a verb left empty is one it does not have."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = field(name="enableHTTPS", default=False)
    tls_config: ExtenderTLS | None = None
    http_timeout: Duration = Duration()
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class SchedulerConfig(Struct, frozen=True):
    """The whole configuration of a scheduler.

    `percentage_of_nodes_to_score` stays None where the file does not set it, which is not the same as an
    explicit 0 (a percentage that adapts to the size of the cluster). Written out it is 0 in both cases.
    """

    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False
