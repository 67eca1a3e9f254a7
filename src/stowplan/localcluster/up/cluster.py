"""The parts of a cluster in one process."""

import random
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from stowplan.api.catalogue import STORAGE_CLASSES
from stowplan.config.dump import dump
from stowplan.explain.web import Inspection, Routes
from stowplan.explain.web.http import Extension
from stowplan.explain.web.questions import Questions
from stowplan.localcluster.admission import ClusterAdmission, publish_authority, publish_server
from stowplan.localcluster.admission.plugins.addons import AddOnAdmission
from stowplan.localcluster.admission.webhooks import WebhookStage
from stowplan.localcluster.apiserver import ApiServer, Listening
from stowplan.localcluster.auth.certificates import CertificateAuthority
from stowplan.localcluster.auth.tokens import SigningKey
from stowplan.localcluster.client import InProcessClient
from stowplan.localcluster.controllers.actors import RULES_OF_TAINTS, STORED_ONLY
from stowplan.localcluster.controllers.manager import ControllerSettings, controller_manager
from stowplan.localcluster.controllers.nodes.nodelifecycle import LifecycleSettings
from stowplan.localcluster.controllers.serviceaccount import AccountSettings
from stowplan.localcluster.controllers.services.loadbalancers import DEFAULT_RANGE, AddressRange
from stowplan.localcluster.controllers.storage.provisioner import ProvisionerSettings, default_storage_class
from stowplan.localcluster.durable import DataDirError, open_data_dir
from stowplan.localcluster.durable.groupcommit import GroupCommit
from stowplan.localcluster.kubelets import Kubelets, KubeletSettings, NodeShape, named_nodes
from stowplan.localcluster.objects.addons import AddOn
from stowplan.localcluster.objects.groupfeatures import GroupFeatures
from stowplan.localcluster.objects.usage import PretendUsage
from stowplan.localcluster.remote.calls import RemoteServers, RemoteSettings
from stowplan.localcluster.remote.conversion import ConversionWebhooks
from stowplan.localcluster.store import FieldManager, Store
from stowplan.localcluster.up.loading import LoadReport, load_cluster
from stowplan.localcluster.up.manifests import Manifest
from stowplan.localcluster.up.schedulers import ReloadingScheduler, SchedulerSource
from stowplan.runtime.clock import Clock, RealClock
from stowplan.runtime.logs import Logger
from stowplan.scheduler import Scheduler, Settings
from stowplan.scheduler.recording import Recording

THREE_NODES = (NodeShape(count=3, zones=("a", "b", "c")),)

_HTTPS: Final = 443
"""The port that a server which does not listen is said to have."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """Plan of a cluster. `loaded` is its initial content, besides the nodes of `shapes`.

    With a `data_dir` it is restored from there, and stores every change there. The scheduler has `settings`,
    which are read again from `source` when its files change; `more_schedulers` run concurrently. `logger`
    gets the schedulers' log; without one only errors are reported. `recording` is of the first. The addresses
    of `load_balancers` are given to Services, Ingresses and Gateways. `add_ons`: projects
    beside Kubernetes whose objects are acted on. `remote` says where services of webhooks are reached.
    """

    shapes: Sequence[NodeShape] = THREE_NODES
    settings: Settings = field(default_factory=Settings.of)
    source: SchedulerSource | None = None
    more_schedulers: Sequence[SchedulerSource] = ()
    logger: Logger | None = None
    kubelets: KubeletSettings = field(default_factory=KubeletSettings)
    listening: Listening = field(default_factory=Listening)
    lifecycle: LifecycleSettings = field(default_factory=LifecycleSettings)
    loaded: Sequence[Manifest] = ()
    usage: PretendUsage | None = field(default_factory=PretendUsage)
    seed: int | None = None
    data_dir: Path | None = None
    recording: Recording | None = None
    load_balancers: AddressRange | None = DEFAULT_RANGE
    questions: Questions | None = None
    """Answers the questions of the page."""
    add_ons: Collection[AddOn] = ()
    remote: RemoteSettings = field(default_factory=RemoteSettings)


class LocalCluster:
    """A cluster that runs as long as `running` is entered. `report` is called with what goes wrong."""

    def __init__(
        self,
        plan: ClusterPlan,
        *,
        clock: Clock | None = None,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.plan = plan
        self.clock = RealClock() if clock is None else clock
        rng = random.Random(plan.seed)
        groups = GroupFeatures.of(plan.settings.gates)
        admission = ClusterAdmission(groups=groups, gates=plan.settings.gates)
        if plan.add_ons:
            admission.stages = (*admission.stages, AddOnAdmission(plan.add_ons))
        self.store = Store(
            self.clock,
            random.Random(rng.getrandbits(64)),
            admission=admission,
            fields=FieldManager(),
            catalogue=groups.catalogue(),
        )
        self._log = None if plan.data_dir is None else _opened(self.store, plan.data_dir)
        names = (node.name for node in named_nodes(plan.shapes))
        self.load_report: LoadReport = load_cluster(self.store, plan.loaded, names, plan.add_ons)
        if not self.store.count(STORAGE_CLASSES):
            self.store.create(STORAGE_CLASSES, default_storage_class())
        self._remote = RemoteServers(self.store, plan.remote)
        self.store.definitions.converter = ConversionWebhooks(self._remote)
        webhooks = WebhookStage(self.store, self._remote)
        admission.stages = (*admission.stages, webhooks)
        release = plan.settings.release
        has_rules = plan.settings.gates["DRADeviceTaintRules"]
        self.server = ApiServer(
            self.store,
            plan.listening,
            clock=self.clock,
            rng=random.Random(rng.getrandbits(64)),
            signing_key=None if plan.data_dir is None else SigningKey.kept_in(plan.data_dir),
            stored_only=STORED_ONLY if has_rules else STORED_ONLY | RULES_OF_TAINTS,
            usage=plan.usage,
            release=release,
            notices=webhooks.notices,
            authority=None
            if plan.data_dir is None
            else CertificateAuthority.kept_in(plan.data_dir, self.clock.now()),
        )
        self.routes = Routes(
            Inspection(lambda: self.scheduler, cluster="stowplan up", release=release.version),
            lambda: dump(self.schedulers[0].settings.config.config),
            plan.questions,
        )
        self.server.handler.extension = Extension(self.routes)
        self.kubelets = Kubelets(
            InProcessClient(self.store, name="kubelet"),
            plan.shapes,
            replace(plan.kubelets, version=f"v{release.version}"),
            clock=self.clock,
            rng=random.Random(rng.getrandbits(64)),
            report=report,
        )
        self._controllers = controller_manager(
            InProcessClient(self.store, name="kube-controller-manager"),
            ControllerSettings(
                provisioner=ProvisionerSettings(installed_only=True),
                lifecycle=plan.lifecycle,
                usage=plan.usage,
                device_taint_rules=has_rules,
                groups=groups,
                load_balancers=plan.load_balancers,
                sign_certificate=self.server.authority.sign,
                coscheduling=plan.settings.gates.coscheduling,
                add_ons=plan.add_ons,
                accounts=AccountSettings(self._root_ca, self.server.issuer.sign_for_secret),
            ),
            clock=self.clock,
            rng=random.Random(rng.getrandbits(64)),
            report=report,
        )
        self.logger = Logger(_error_sink(report)) if plan.logger is None else plan.logger
        sources = [(plan.settings, plan.source), *((one.settings(), one) for one in plan.more_schedulers)]
        self.schedulers = [
            ReloadingScheduler(
                InProcessClient(self.store, name="kube-scheduler"),
                settings,
                source,
                clock=self.clock,
                rng=random.Random(rng.getrandbits(64)),
                logger=self.logger,
                report=report,
                recording=plan.recording if number == 0 else None,
            )
            for number, (settings, source) in enumerate(sources)
        ]

    @property
    def scheduler(self) -> Scheduler:
        """The first scheduler."""
        return self.schedulers[0].scheduler

    @asynccontextmanager
    async def running(self, *, listen: bool = True) -> AsyncIterator["LocalCluster"]:
        """Run for as long as the block takes. Entered once the API is served and the scheduler has synced.

        In virtual time nothing can `listen`; requests then go to `server.handler`.
        """
        async with AsyncExitStack() as stack:
            if self._log is not None:
                stack.callback(self._log.close)
            stack.push_async_callback(self._remote.caller.close)
            if listen:
                await stack.enter_async_context(self.server)
            publish_server(self.store, self.server.address, self.server.port or _HTTPS)
            self.server.handler.api_services.start()
            publish_authority(self.store, self.server.url, self.server.certificate)
            await stack.enter_async_context(self.kubelets.running())
            await stack.enter_async_context(self._controllers.running())
            for scheduler in self.schedulers:
                await stack.enter_async_context(scheduler.running())
            await stack.enter_async_context(self.routes.inspection.following())
            stack.callback(self.routes.close)
            yield self

    def _root_ca(self) -> str:
        return (self.server.certificate or b"").decode()


def _opened(store: Store, path: Path) -> GroupCommit:
    """The data directory of a cluster. Raises DataDirError, which says what to do about pod groups."""
    try:
        return open_data_dir(store, path)
    except DataDirError as error:
        if "scheduling.k8s.io" not in str(error):
            raise
        raise DataDirError(f"{error}: the cluster was started with --gangs") from None


_EXPECTED: Final = "Status after running PostFilter plugins for pod"
"""Message that kube-scheduler logs as an error for every pod that waits for a claim; the pod's events have
it, too."""

_RETRYING: Final = "Error scheduling pod; retrying"
_GROUP_WAITS: Final = ("minCount (", "pod group is unschedulable")
"""How the errors begin that it logs of members whose group is waiting; their events say it, too."""


def _error_sink(report: Callable[[str], None]) -> Callable[[int, str, Mapping[str, object]], None]:
    def log(level: int, message: str, values: Mapping[str, object]) -> None:
        told_by_events = message == _EXPECTED or (
            message == _RETRYING and str(values.get("err", "")).startswith(_GROUP_WAITS)
        )
        if level < 0 and not told_by_events:
            shown = " ".join(f"{name}={value}" for name, value in values.items())
            report(f"scheduler: {message} {shown}".rstrip())

    return log
