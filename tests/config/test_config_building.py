"""From a valid configuration to extenders and profiles."""

import base64
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from config.documents import HEADER, with_args, with_profile
from releases import GATES_1_36, V1_36
from stowplan.api.gates.feature_gates import FeatureGates
from stowplan.api.releases import Release
from stowplan.config import ConfigError, build, default_config, default_profile, load
from stowplan.config.dump import dump, dump_yaml
from stowplan.config.load import check
from stowplan.config.types import ExtenderTLS, SchedulerConfig
from stowplan.framework import Cycle, NodeRow, Plugin, PodInfo
from stowplan.scheduler.extenders.transport import ClientTls
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.scheduler.framework.registry import Registry
from stowplan.scheduler.plugins.noderesources.fit import NodeResourcesFitArgs
from stowplan.scheduler.plugins.registry import catalog, default_plugins

HERE = Path(__file__).parent
CERTIFICATE = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tClpHRjBZUT09Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K"
KEY = "LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tClpHRjBZUT09Ci0tLS0tRU5EIFBSSVZBVEUgS0VZLS0tLS0K"


def refusal(document: str) -> str:
    with pytest.raises(ConfigError) as error:
        build(load(document))
    assert error.value.stage == "build"
    return error.value.message


def test_the_default_configuration_is_written_as_kube_scheduler_writes_it() -> None:
    assert dump_yaml(build(default_config(GATES_1_36)).config) == (HERE / "written-defaults.yaml").read_text()


def test_two_profiles_are_written_as_kube_scheduler_writes_them() -> None:
    document = (
        f"{HEADER}profiles:\n- {{schedulerName: a}}\n- schedulerName: b\n"
        "  plugins: {multiPoint: {enabled: [{name: PrioritySort}, {name: DefaultBinder}, "
        "{name: NodeResourcesFit, weight: 3}], disabled: [{name: '*'}]}}\n"
    )
    assert (
        dump_yaml(build(load(document, GATES_1_36)).config)
        == (HERE / "written-two-profiles.yaml").read_text()
    )


def test_what_is_written_reads_back_as_the_same_configuration() -> None:
    document = (
        f"{HEADER}extenders:\n- {{urlPrefix: 'http://a', httpTimeout: 1m, tlsConfig: "
        f"{{serverName: 'yes'}}}}\n"
        "percentageOfNodesToScore: 40\nclientConnection: {qps: 0.1}\nprofiles:\n- schedulerName: "
        "'010'\n  pluginConfig:\n"
        "  - {name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 2, "
        "topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 3}]}}\n"
    )
    built = build(load(document))
    again = build(load(dump_yaml(built.config)))
    assert dump(again.config) == dump(built.config)
    assert again.profiles == built.profiles


def test_the_default_profile_has_the_catalog_in_order(each_release: Release) -> None:
    gates = FeatureGates(release=each_release)
    plugins = catalog(each_release)
    profile = default_profile(gates)
    assert profile.scheduler_name == "default-scheduler"
    assert profile.percentage_of_nodes_to_score is None
    in_default = [use.name for use in default_plugins(gates)]
    for point in ExtensionPoint:
        assert list(profile.names(point)) == [name for name in in_default if point in plugins[name].points]
    assert isinstance(profile.args["NodeResourcesFit"], NodeResourcesFitArgs)
    assert set(profile.args) == {name for name in in_default if plugins[name].args_type}


def test_gates_add_plugins_to_the_default_profile() -> None:
    gates = FeatureGates({"GangScheduling": True, "TopologyAwareWorkloadScheduling": True}, V1_36)
    profile = default_profile(gates)
    assert profile.names(ExtensionPoint.PERMIT) == ("GangScheduling",)
    assert profile.names(ExtensionPoint.PLACEMENT_GENERATE) == ("TopologyPlacementGenerator",)
    assert profile.names(ExtensionPoint.PLACEMENT_SCORE) == ("NodeResourcesFit", "PodGroupPodsCount")


def test_the_percentage_of_a_profile_wins_over_the_global_one() -> None:
    profiles = "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 0}]"
    document = f"{HEADER}percentageOfNodesToScore: 30\n{profiles}"
    assert [profile.percentage_of_nodes_to_score for profile in build(load(document)).profiles] == [30, 0]


class Mine(Plugin):
    def filter_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> None:
        return None

    def score_node(self, cycle: Cycle, pod: PodInfo, node: NodeRow) -> int:
        return 1


class Other(Plugin):
    def sort_key(self, queued: Any) -> int:
        return 0


def test_plugins_from_outside_the_tree_are_merged_like_any_other() -> None:
    document = with_profile(
        "{plugins: {multiPoint: {enabled: [{name: Mine, weight: 4}]}, filter: {enabled: [{name: Mine}]}}, "
        "pluginConfig: [{name: Mine, args: {size: 3}}]}"
    )
    profile = build(load(document), Registry({}, {"Mine": Mine})).profiles[0]
    assert profile.names(ExtensionPoint.FILTER)[0] == "Mine"
    assert profile.plugins[ExtensionPoint.SCORE][-1].name == "Mine"
    assert profile.plugins[ExtensionPoint.SCORE][-1].weight == 4
    assert profile.args["Mine"] == {"size": 3}
    assert 'plugin "Mine" already registered' not in refusal(document)
    assert refusal(document).endswith('FilterPlugin "Mine" does not exist')


def test_profiles_with_different_queue_orders_are_refused() -> None:
    config = load(
        f"{HEADER}profiles:\n- {{schedulerName: a}}\n- {{schedulerName: b, "
        "plugins: {multiPoint: {disabled: [{name: PrioritySort}], enabled: [{name: Other}]}}}\n"
    )
    with pytest.raises(ConfigError) as error:
        build(config, Registry({}, {"Other": Other}))
    assert error.value.message == (
        'initializing profiles: different queue sort plugins for profile "b": "Other", first: "PrioritySort"'
    )


def test_a_configuration_made_in_python_is_completed_and_checked() -> None:
    assert check(SchedulerConfig()).config == default_config().config
    with pytest.raises(ConfigError, match="parallelism: Invalid value: 0"):
        check(SchedulerConfig(parallelism=0))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("{ignoredResources: [a b]}", 'ignoredResources[0]: Invalid value: "a b": name part must consist of'),
        (
            "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}",
            "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not "
            "in valid range (0, 100]",
        ),
        (
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when "
            "type is RequestedToCapacityRatio",
        ),
        (
            "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}",
            "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not "
            "RequestedToCapacityRatio",
        ),
        (
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}}",
            "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point "
            "must be specified",
        ),
    ],
)
def test_arguments_of_resource_fit_are_checked_when_it_is_built(args: str, message: str) -> None:
    start = (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        'initializing plugin "NodeResourcesFit": '
    )
    assert refusal(with_args("NodeResourcesFit", args)).startswith(start + message)


def test_arguments_of_resource_fit_do_not_matter_where_it_is_not_used() -> None:
    document = with_profile(
        "{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}, "
        "pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {}}}]}"
    )
    assert "NodeResourcesFit" not in build(load(document)).profiles[0].args


@pytest.mark.parametrize(
    ("tls", "message"),
    [
        ("{caFile: /nonexistent/ca}", "open /nonexistent/ca: no such file or directory"),
        (
            "{caData: aGVsbG8=, insecure: true}",
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        ("{caData: aGVsbG8=}", "unable to load root certificates: unable to parse bytes as PEM block"),
        (f"{{caData: {KEY}}}", "unable to load root certificates: no valid certificate authority data seen"),
        (
            f"{{caData: {CERTIFICATE}}}",
            "unable to load root certificates: failed to parse certificate: x509: malformed certificate",
        ),
        ("{certData: aGVsbG8=, keyData: aGVsbG8=}", "tls: failed to find any PEM data in certificate input"),
        (
            f"{{certData: {KEY}, keyData: {KEY}}}",
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
            "PEM inputs may have been switched",
        ),
        (f"{{certData: {CERTIFICATE}, keyData: aGVsbG8=}}", "tls: failed to find any PEM data in key input"),
        (
            f"{{certData: {CERTIFICATE}, keyData: {CERTIFICATE}}}",
            "tls: found a certificate rather than a key in the PEM for the private key",
        ),
    ],
)
def test_tls_settings_that_cannot_be_used(tls: str, message: str) -> None:
    document = f"{HEADER}extenders: [{{urlPrefix: 'https://a', tlsConfig: {tls}}}]"
    assert refusal(document) == f"couldn't build extenders: {message}"


@pytest.mark.parametrize(
    ("tls", "settings"),
    [
        ("{}", ExtenderTLS()),
        ("{certFile: /nonexistent}", ExtenderTLS(cert_file="/nonexistent")),
        ("{serverName: x}", ExtenderTLS(server_name="x")),
        ("{insecure: true}", ExtenderTLS(insecure=True)),
    ],
)
def test_tls_settings_that_are_fine_reach_the_connections(tls: str, settings: ExtenderTLS) -> None:
    document = f"{HEADER}extenders: [{{urlPrefix: 'https://a', tlsConfig: {tls}}}]"
    [extender] = build(load(document)).extenders
    assert extender.tls_config == settings
    connections = ClientTls(extender)
    assert connections.server_name == (settings.server_name or None)
    expected = ssl.CERT_NONE if settings.insecure else ssl.CERT_REQUIRED
    assert connections.context().verify_mode == expected


def test_certificates_that_can_be_used_are_kept_as_they_were_written(tmp_path: Path) -> None:
    certificate, key = self_signed()
    ca_file = tmp_path / "ca.pem"
    ca_file.write_bytes(certificate)
    encoded = {name: base64.b64encode(pem).decode() for name, pem in (("cert", certificate), ("key", key))}
    tls = f"{{caFile: {ca_file}, certData: {encoded['cert']}, keyData: {encoded['key']}}}"
    [extender] = build(load(f"{HEADER}extenders: [{{urlPrefix: 'https://a', tlsConfig: {tls}}}]")).extenders
    assert extender.tls_config == ExtenderTLS(ca_file=str(ca_file), cert_data=certificate, key_data=key)
    context = ClientTls(extender).context()
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert [dict(root)["serialNumber"] for root in context.get_ca_certs()] == ["01"]


def self_signed() -> tuple[bytes, bytes]:
    """A certificate with the serial number 1 and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "extender")])
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2120, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def test_https_without_roots_skips_verification_and_still_loads_the_certificate() -> None:
    document = f"{HEADER}extenders: [{{enableHTTPS: true, tlsConfig: {{certFile: /nonexistent}}}}]"
    assert refusal(document) == "couldn't build extenders: open /nonexistent: no such file or directory"


def test_extenders_that_may_fail_are_called_last_and_get_a_timeout() -> None:
    extenders = "[{urlPrefix: a, ignorable: true}, {urlPrefix: b}, {urlPrefix: c, httpTimeout: 1s}]"
    built = build(load(f"{HEADER}extenders: {extenders}"))
    assert [extender.url_prefix for extender in built.extenders] == ["b", "c", "a"]
    assert [str(extender.http_timeout) for extender in built.config.extenders] == ["5s", "5s", "1s"]


def test_written_text_that_could_be_mistaken_is_quoted() -> None:
    config = load(f"{HEADER}clientConnection: {{kubeconfig: 'on', acceptContentTypes: '3'}}").config
    text = dump_yaml(config)
    assert 'kubeconfig: "on"' in text
    assert 'acceptContentTypes: "3"' in text
    assert yaml.safe_load(text)["clientConnection"]["kubeconfig"] == "on"
