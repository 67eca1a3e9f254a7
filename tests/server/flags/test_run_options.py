"""Meaning of flags and file: the options a process starts with, and those after a reload."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from releases import EMULATE_1_36
from server.flags.commands import HEADER, KUBECONFIG, Called, call
from stowplan.api.catalogue import NAMESPACES, NODES, PODS
from stowplan.api.releases import DEFAULT
from stowplan.client.http import Address, HttpClient, Server
from stowplan.config import ConfigError
from stowplan.gocompat.durations import Duration
from stowplan.runtime.clock import RealClock
from stowplan.server.clients import watch_lists_wanted
from stowplan.server.options import reload, waiting_for_restart

MASTER = "--master=http://127.0.0.1:1"
Write = Callable[[str], str]


@pytest.fixture
def config(tmp_path: Path) -> Write:
    """Writes a configuration file and gives its name."""

    def write(text: str) -> str:
        path = tmp_path / "scheduler.yaml"
        path.write_text(HEADER + text)
        return str(path)

    return write


def failure(*arguments: str) -> str:
    called = call(MASTER, *arguments)
    assert called.code == 1
    return called.messages[-1].removeprefix('"command failed" err=')


def test_without_flags_everything_is_as_in_kube_scheduler() -> None:
    options = call(MASTER).options
    assert (options.client.qps, options.client.burst, options.client.kubeconfig) == (50, 100, "")
    assert options.longest_wait == 300
    assert (options.serving.bind_address, options.serving.port) == ("0.0.0.0", 10259)
    assert options.authentication.tolerate_lookup_failure
    assert options.authorization.always_allow_paths == ("/healthz", "/readyz", "/livez")
    assert (options.logs.format, options.logs.verbosity, options.metrics.disabled) == ("text", 0, ())
    assert options.election.leader_elect
    assert options.election.lease_duration == Duration.of_seconds(15)
    assert (options.warnings, options.plugins, options.config_file) == ((), (), "")


def test_flags_reach_the_part_they_are_for() -> None:
    options = call(
        MASTER,
        *["--kube-api-qps=7", "--kube-api-burst=9", "--profiling=false", "--leader-elect-resource-name=x"],
        *["--pod-max-in-unschedulable-pods-duration=90s", "--secure-port=1", "--bind-address=::1"],
        *["--cert-dir=c", "--tls-cert-file=f", "--tls-private-key-file=k", "--tls-min-version=VersionTLS13"],
        *["--tls-sni-cert-key=a,b:n", "--permit-port-sharing", "--tls-curve-preferences=29"],
        *["--authentication-kubeconfig=ak", "--authentication-skip-lookup", "--client-ca-file=ca"],
        *["--authentication-token-webhook-cache-ttl=1s", "--requestheader-allowed-names=p"],
        *["--authorization-kubeconfig=zk", "--authorization-webhook-cache-unauthorized-ttl=2s"],
        *["--authorization-always-allow-paths=/x*", "-v2", "--vmodule=q=4", "--disabled-metrics=m"],
    ).options
    assert (options.client.qps, options.client.burst, options.client.master) == (7, 9, "http://127.0.0.1:1")
    assert (options.profiling, options.election.resource_name, options.longest_wait) == (False, "x", 90)
    serving = options.serving
    assert (serving.port, serving.bind_address, serving.certificate_folder) == (1, "::1", "c")
    assert (serving.certificate_file, serving.key_file, serving.min_version) == ("f", "k", "VersionTLS13")
    assert (serving.sni_certificates[0].names, serving.permit_port_sharing) == (("n",), True)
    assert serving.curve_preferences == (29,)
    assert (options.authentication_kubeconfig, options.authorization_kubeconfig) == ("ak", "zk")
    assert (options.authentication.skip_lookup, options.authentication.client_ca_file) == (True, "ca")
    assert options.authentication.token_cache_ttl == 1
    assert options.authentication.request_header.allowed_names == ("p",)
    assert (options.authorization.denied_cache_ttl, options.authorization.always_allow_paths) == (2, ("/x*",))
    assert (options.logs.verbosity, options.logs.vmodule, options.metrics.disabled) == (
        2,
        (("q", 4),),
        ("m",),
    )
    assert options.flag_values["secure-port"] == "1"


def test_a_file_counts_and_only_given_leader_election_flags_change_it(config: Write) -> None:
    file = config("leaderElection: {resourceName: mine, leaseDuration: 20s}\nclientConnection: {qps: 3}\n")
    options = call(MASTER, "--config", file, "--leader-elect-retry-period=3s", "--kube-api-burst=1").options
    assert (options.election.resource_name, options.election.lease_duration) == (
        "mine",
        Duration.of_seconds(20),
    )
    assert options.election.retry_period == Duration.of_seconds(3)
    assert (options.client.qps, options.client.burst) == (3, 100)


def test_flags_over_a_file_are_checked_with_it(config: Write) -> None:
    said = failure("--config", config(""), "--leader-elect-lease-duration=5s")
    assert said.startswith('"leaderElection.leaseDuration: Invalid value:')


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            "--secure-port=-1",
            "--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port",
        ),
        ("--requestheader-group-headers=a,,b", 'empty value in \\"requestheader-group-headers\\"'),
        (
            "--requestheader-uid-headers=x",
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid "
            "header - API aggregation will not work",
        ),
        (
            "--requestheader-uid-headers=x-remote-uid --feature-gates=RemoteRequestHeaderUID=false",
            '--requestheader-uid-headers requires the \\"RemoteRequestHeaderUID\\" feature to be enabled',
        ),
        (
            "--show-hidden-metrics-for-version=1.2 --emulated-version=1.36",
            'metrics.showHiddenMetricsForVersion: Invalid value: \\"1.2\\": must be omitted or have '
            "the value '1.35'; only the previous minor version is allowed",
        ),
        (
            "--kube-api-burst=0",
            "burst is required to be greater than 0 when RateLimiter is not set and QPS is set to "
            "greater than 0",
        ),
        ("--emulated-version=other=1.35", "component not registered: other"),
        ("--emulated-version=1.35,kube=1.34", "duplicate version flag, kube=1.35 and kube=1.34"),
        ("--emulated-version=1.35.2", "patch version not allowed, got: kube=1.35.2"),
        ("--emulated-version=one", 'could not parse \\"one\\" as version'),
        (
            "--emulated-version=1.34 --min-compatibility-version=1.35",
            "minCompatibilityVersion version 1.35 is not between [1.34, 1.34]",
        ),
        (
            "--feature-gates=kube:GenericWorkload=true,GangScheduling=true",
            "set kube feature gates with default empty prefix or kube: prefix consistently, do not mix use",
        ),
        ("--feature-gates=wardle:A=true", "component not registered: wardle"),
        ("--feature-gates=GenericWorkload", "missing bool value for GenericWorkload"),
        (
            "--feature-gates=NodeSwap=false",
            "cannot set feature gate NodeSwap to false, feature is locked to true",
        ),
        (
            "--feature-gates=WatchList=perhaps",
            'invalid value of WatchList=perhaps, err: strconv.ParseBool: parsing \\"perhaps\\": '
            "invalid syntax",
        ),
        (
            "--secure-port=70000 --disabled-metrics=0",
            "[--secure-port 70000 must be between 1 and 65535, inclusive. It cannot be turned off "
            "with 0, metrics.disabledMetrics: ",
        ),
        (
            "--plugin=nowhere:Plugin",
            "plugin 'nowhere:Plugin': cannot import nowhere: ModuleNotFoundError: No module named 'nowhere'",
        ),
        ("--plugin=nowhere", "plugin 'nowhere': expected module:Class or file.py:Class"),
    ],
)
def test_what_is_wrong_is_told_by_the_flag(arguments: str, error: str) -> None:
    said = failure(*arguments.split())
    assert said.startswith(f'"{error}')
    assert len(said) == len(error) + 2 or error.startswith("[")


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        ("--disable-http2-serving", "--disable-http2-serving has no effect: the port speaks HTTP/1.1 only"),
        (
            "--feature-gates=NodeSwap=true",
            "--feature-gates: NodeSwap has no effect: it is not a gate of the scheduler",
        ),
        (
            "--feature-gates=InPlacePodLevelResourcesVerticalScaling=false",
            "--feature-gates: InPlacePodLevelResourcesVerticalScaling has no effect: resources in the status "
            "of a pod count in any case",
        ),
        (
            "--feature-gates=InterPodAffinityHostnameFastPath=true",
            "--feature-gates: InterPodAffinityHostnameFastPath has no effect: pods are counted by domain as "
            "they come and go, which is as fast",
        ),
        (
            "--feature-gates=AllAlpha=true,GenericWorkload=true,DRAListTypeAttributes=true",
            "--feature-gates: InterPodAffinityHostnameFastPath has no effect: pods are counted by domain as "
            "they come and go, which is as fast",
        ),
        (
            "--kube-api-content-type=application/cbor",
            "--kube-api-content-type has no effect: the client sends JSON",
        ),
        (
            "--requestheader-username-headers=x-user",
            "--requestheader-username-headers is set without specifying the standard X-Remote-User"
            " header - API aggregation will not work",
        ),
    ],
)
def test_what_is_not_done_as_asked_is_said_once_and_nothing_else_happens(
    arguments: str, warning: str
) -> None:
    called = call(MASTER, *arguments.split())
    assert called.code == 0
    assert called.messages == [f'"{warning}"']
    assert called.stderr.startswith("W")


def test_gates_change_scheduling_and_what_is_around_it() -> None:
    options = call(
        MASTER, EMULATE_1_36, "--feature-gates=GenericWorkload=true,AllAlpha=false,WatchListClient=false"
    ).options
    assert options.loaded.gates["GenericWorkload"]
    assert not options.gates["WatchListClient"]
    assert options.gates["LoggingBetaOptions"]
    assert options.warnings == (
        "component has alpha features enabled in emulated version, this is unsupported: "
        "features=[GenericWorkload]",
    )


@pytest.mark.parametrize(
    ("gates", "wanted"),
    [("", None), ("WatchListClient=true", True), ("WatchListClient=false", False), ("AllBeta=true", True)],
)
def test_pods_and_nodes_come_as_watch_lists_only_if_somebody_says_so(gates: str, wanted: bool | None) -> None:
    options = call(MASTER, f"--feature-gates={gates}").options
    assert watch_lists_wanted(options.gates) is wanted
    server = Server(Address.parse("http://127.0.0.1:1"))
    client = HttpClient(server, clock=RealClock(), rng=Random(1), streams=wanted)
    assert [client.streams(one) for one in (PODS, NODES, NAMESPACES)] == [
        wanted is True,
        wanted is True,
        wanted is not False,
    ]


def test_a_stage_can_be_switched_as_a_whole() -> None:
    gates = call(
        MASTER, EMULATE_1_36, "--feature-gates=AllAlpha=true,LoggingAlphaOptions=false"
    ).options.gates
    assert gates["MemoryQoS"]
    assert not gates["LoggingAlphaOptions"]
    assert gates["GangScheduling"]
    assert all(gates[name] == gate.default for name, gate in gates.release.gates.items() if gate.locked)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            "--logging-format=json --feature-gates=LoggingBetaOptions=false",
            "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature",
        ),
        (
            "--log-text-split-stream",
            "options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled",
        ),
        ("--logging-format=json --vmodule=a=1", "vmodule: Forbidden: Only supported for text log format"),
        (
            "--log-json-split-stream --log-json-info-buffer-size=1Ki",
            "[options.json.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled, "
            "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled]",
        ),
    ],
)
def test_a_log_that_cannot_be_kept_so_is_told_in_plain_text(arguments: str, line: str) -> None:
    called = call(MASTER, *arguments.split())
    assert (called.code, called.stderr) == (1, f"{line}\n")


def test_the_log_can_be_buffered_if_the_gate_is_on() -> None:
    logs = call(
        MASTER, "--feature-gates=LoggingAlphaOptions=true", "--log-text-info-buffer-size=64Ki"
    ).options.logs
    assert logs.text.info_buffer_size == 65536


def test_every_flag_is_logged_for_those_who_want_detail() -> None:
    messages = call(MASTER, "-v=1").messages
    assert 'FLAG: --master="http://127.0.0.1:1"' in messages
    assert 'FLAG: --v="1"' in messages
    assert 'FLAG: --authorization-always-allow-paths="[/healthz,/readyz,/livez]"' in messages
    assert sum(message.startswith("FLAG: --") for message in messages) == len(
        call(MASTER).options.flag_values
    )


def test_the_version_is_not_told_if_gates_are_wrong() -> None:
    assert call("--version", "--feature-gates=NoSuch=true").code == 1
    assert call("--version", "--feature-gates=GenericWorkload=true").stdout.startswith(
        f"Kubernetes v{DEFAULT.version}+stowplan"
    )


def test_another_version_can_be_claimed() -> None:
    assert call(MASTER, f"--version=v{DEFAULT.version}-mine").options.version == f"v{DEFAULT.version}-mine"


def test_a_limit_of_zero_is_that_of_kubernetes_clients_and_a_negative_one_is_none() -> None:
    assert call(MASTER, "--kube-api-qps=0", "--kube-api-burst=0").options.client.qps == 5
    assert call(MASTER, "--kube-api-qps=0", "--kube-api-burst=0").options.client.burst == 10
    assert call(MASTER, "--kube-api-qps=-1").options.client.qps == -1


class TestFindingTheServer:
    def test_an_address_is_enough(self) -> None:
        (plan,) = call(MASTER).plans
        assert str(plan.server.address) == "http://127.0.0.1:1"

    def test_an_address_overrules_the_one_in_a_kubeconfig(self, tmp_path: Path) -> None:
        (tmp_path / "kc").write_text(KUBECONFIG)
        (plan,) = call("--kubeconfig", str(tmp_path / "kc"), "--master=https://other:7").plans
        assert str(plan.server.address) == "https://other:7"
        assert plan.server.identity.token == "secret"

    def test_a_pod_knows_its_server(self) -> None:
        environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
        called = call(environ=environ)
        assert called.messages[0].startswith("Neither --kubeconfig nor --master was specified.")
        assert "expected the token of a service account" in called.messages[1]

    @pytest.mark.parametrize("address", ["nonsense", "ftp://x", "http://[", "https://h:99999"])
    def test_an_address_that_is_none_is_refused(self, address: str) -> None:
        called = call(f"--master={address}")
        assert called.code == 1
        assert "--master: expected an address such as https://host:6443" in called.messages[-1]


class TestReload:
    def started(self, config: Write, text: str) -> Called:
        return call(MASTER, "--config", config(text))

    def test_the_file_is_read_again_with_the_flags_over_it(self, config: Write) -> None:
        called = call(MASTER, "--config", config(""), "--leader-elect-retry-period=3s")
        config("profiles: [{schedulerName: other}]\n")
        again = reload(called.options)
        assert [profile.scheduler_name for profile in again.loaded.config.profiles] == ["other"]
        assert again.loaded.config.leader_election.retry_period == Duration.of_seconds(3)
        assert waiting_for_restart(again) == []

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("profiles: {}\n", "json: cannot unmarshal"),
            ("parallelism: 0\n", "parallelism: Invalid value: 0"),
            ("nonsense: 1\n", 'strict decoding error: unknown field "nonsense"'),
        ],
    )
    def test_a_bad_file_is_refused_in_one_line(self, config: Write, text: str, error: str) -> None:
        options = self.started(config, "").options
        config(text)
        with pytest.raises(ConfigError) as refused:
            reload(options)
        assert str(refused.value).startswith(error)
        assert "\n" not in str(refused.value)

    def test_a_file_that_is_gone_is_named(self, config: Write) -> None:
        options = self.started(config, "").options
        Path(options.config_file).unlink()
        with pytest.raises(ConfigError, match=r"open .*scheduler.yaml: no such file or directory"):
            reload(options)

    def test_what_a_reload_cannot_change_is_named_and_stays(self, config: Write) -> None:
        options = self.started(config, "").options
        config("leaderElection: {resourceName: mine}\nclientConnection: {qps: 1}\nenableProfiling: false\n")
        again = reload(options)
        assert waiting_for_restart(again) == ["clientConnection", "leaderElection", "enableProfiling"]
        assert (again.election, again.client, again.profiling) == (options.election, options.client, True)

    def test_without_a_file_there_is_nothing_to_read(self) -> None:
        with pytest.raises(ConfigError, match="without --config"):
            reload(call(MASTER).options)
