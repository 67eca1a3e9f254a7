"""The flags of kube-scheduler 1.9 to 1.18: what they did then they do here."""

import json
from pathlib import Path

import pytest

from server.flags.commands import HEADER, Called, call
from stowplan.client.election import LOCK_KINDS
from stowplan.config import ConfigError
from stowplan.scheduler.framework.interface import ExtensionPoint
from stowplan.server.configuration import AlgorithmSource, ConfigMapRef, algorithm_source
from stowplan.server.flags.parser import Flag, parse
from stowplan.server.flags.table import GROUPS
from stowplan.server.options import reload, waiting_for_restart

MASTER = "--master=http://127.0.0.1:1"


def policy(*predicates: str, **more: object) -> str:
    named = [{"name": name} for name in predicates]
    priorities = [{"name": "InterPodAffinityPriority", "weight": 1}]
    return json.dumps(
        {"kind": "Policy", "apiVersion": "v1", "predicates": named, "priorities": priorities, **more}
    )


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "policy.cfg"
    path.write_text(policy("PodFitsResources"))
    return path


def filters(called: Called) -> list[str]:
    (plan,) = called.plans
    (profile,) = plan.resolved.built.profiles
    return list(profile.names(ExtensionPoint.FILTER))


def only_profile(called: Called) -> tuple[str, int]:
    """The name of the scheduler, and the weight of required affinity."""
    (profile,) = called.options.loaded.config.profiles
    args = next(entry.args for entry in profile.plugin_config if entry.name == "InterPodAffinity")
    return str(profile.scheduler_name), args.hard_pod_affinity_weight


DEFAULTS = {
    "policy-config-file": "",
    "policy-configmap": "",
    "policy-configmap-namespace": "kube-system",
    "use-legacy-policy-config": "false",
    "algorithm-provider": "",
    "scheduler-name": "default-scheduler",
    "hard-pod-affinity-symmetric-weight": "1",
    "lock-object-name": "kube-scheduler",
    "lock-object-namespace": "kube-system",
    "address": "0.0.0.0",
    "port": "10251",
    "failure-domains": "kubernetes.io/hostname,failure-domain.beta.kubernetes.io/zone,"
    "failure-domain.beta.kubernetes.io/region",
    "log-backtrace-at": ":0",
    "log-file-max-size": "1800",
    "stderrthreshold": "2",
}


def test_defaults_are_those_of_their_time() -> None:
    shown = parse([], GROUPS).shown()
    assert {name: shown[name] for name in DEFAULTS} == DEFAULTS


@pytest.mark.parametrize(
    ("arguments", "source"),
    [
        ("", AlgorithmSource()),
        ("--algorithm-provider=P", AlgorithmSource(provider="P")),
        ("--policy-config-file=f", AlgorithmSource(file="f")),
        ("--policy-config-file=f --algorithm-provider=P", AlgorithmSource(file="f")),
        ("--policy-configmap=m", AlgorithmSource(config_map=ConfigMapRef("kube-system", "m"))),
        (
            "--policy-configmap=m --policy-configmap-namespace=",
            AlgorithmSource(config_map=ConfigMapRef("kube-system", "m")),
        ),
        (
            "--policy-configmap=m --policy-configmap-namespace=n --policy-config-file=f",
            AlgorithmSource(config_map=ConfigMapRef("n", "m")),
        ),
        (
            "--policy-configmap=m --policy-config-file=f --use-legacy-policy-config",
            AlgorithmSource(file="f"),
        ),
        ("--config=c --policy-config-file=f --policy-configmap=m", AlgorithmSource()),
    ],
)
def test_a_config_map_goes_before_a_file_before_a_provider(arguments: str, source: AlgorithmSource) -> None:
    assert algorithm_source(parse(arguments.split(), GROUPS)) == source


def test_a_policy_file_says_what_to_schedule_by(policy_file: Path) -> None:
    called = call(MASTER, f"--policy-config-file={policy_file}")
    assert called.code == 0
    assert "NodeResourcesFit" in filters(called)
    assert "InterPodAffinity" not in filters(called)


@pytest.mark.parametrize("provider", ["DefaultProvider", "DefaultProvider@1.9", "ClusterAutoscalerProvider"])
def test_a_provider_says_what_to_schedule_by(provider: str) -> None:
    called = call(MASTER, f"--algorithm-provider={provider}", "--scheduler-name=old")
    assert "NodeResourcesFit" in filters(called)
    assert called.options.loaded.config.profiles[0].scheduler_name == "old"


def test_a_provider_that_does_not_exist_is_refused() -> None:
    called = call(MASTER, "--algorithm-provider=Mine")
    assert called.code == 1
    assert 'unknown algorithm provider \\"Mine\\"' in called.messages[-1]


def test_the_name_and_the_weight_of_affinity_count_without_a_policy() -> None:
    called = call(MASTER, "--scheduler-name=mine", "--hard-pod-affinity-symmetric-weight=7")
    assert only_profile(called) == ("mine", 7)
    assert filters(called) == filters(call(MASTER))
    assert only_profile(call(MASTER, "--scheduler-name=")) == ("default-scheduler", 1)


def test_the_weight_of_affinity_in_a_policy_wins(policy_file: Path) -> None:
    def weight(**said: object) -> int:
        policy_file.write_text(policy("MatchInterPodAffinity", **said))
        flags = (f"--policy-config-file={policy_file}", "--hard-pod-affinity-symmetric-weight=7")
        return only_profile(call(MASTER, *flags))[1]

    assert weight() == 7
    assert weight(hardPodAffinitySymmetricWeight=9) == 9


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (
            "--use-legacy-policy-config",
            "policyConfigFile: Required value: required when --use-legacy-policy-config is true",
        ),
        (
            "--hard-pod-affinity-symmetric-weight=101",
            "hardPodAffinitySymmetricWeight: Invalid value: 101: not in valid range [0-100]",
        ),
        (
            "--port=70000",
            "--port 70000 must be between 0 and 65535, inclusive. 0 for turning off insecure (HTTP) port",
        ),
        ("--address=here", "--address here is an invalid IP address"),
        ("--policy-config-file=/no/such/file", "open /no/such/file: no such file or directory"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments: str, error: str) -> None:
    called = call(MASTER, *arguments.split())
    assert called.code == 1
    assert called.messages == [f'"command failed" err="{error}"']


def test_a_policy_that_makes_no_sense_is_told_with_its_file(policy_file: Path) -> None:
    policy_file.write_text(policy("NoSuchPredicate"))
    called = call(MASTER, f"--policy-config-file={policy_file}")
    assert called.code == 1
    assert str(policy_file) in called.messages[-1]
    assert "NoSuchPredicate" in called.messages[-1]
    assert len(called.messages) == 1


def test_a_config_map_that_cannot_be_read_is_named() -> None:
    called = call(MASTER, "--policy-configmap=mine")
    assert called.code == 1
    assert called.messages[-1].startswith(
        '"command failed" err="couldn\'t get policy config map kube-system/mine: '
    )
    assert len(called.messages) == 1


@pytest.mark.parametrize(
    ("arguments", "warnings"),
    [
        ("--port=0", []),
        ("--port=0 --address=127.0.0.1", []),
        ("--port=-1", []),
        ("--port=10251", ["--port has no effect: pages are served over TLS only, on --secure-port"]),
        (
            "--address=127.0.0.1",
            ["--address has no effect: pages are served over TLS only, on --bind-address"],
        ),
    ],
)
def test_a_port_without_tls_is_not_opened(arguments: str, warnings: list[str]) -> None:
    called = call(MASTER, *arguments.split())
    assert called.code == 0
    assert called.messages == [f'"{warning}"' for warning in warnings]


@pytest.mark.parametrize("flag", [flag for group in GROUPS for flag in group.flags if flag.deprecated])
def test_what_is_of_no_use_is_accepted_and_told(flag: Flag) -> None:
    called = call(MASTER, f"--{flag.name.replace('-', '_')}={flag.kind.show(flag.default)}")
    assert called.code == 0
    assert called.stderr.startswith(f"Flag --{flag.name} has been deprecated, it has no effect: ")


WITHOUT_CONFIG = (
    "--policy-config-file=f",
    "--policy-configmap=m",
    "--policy-configmap-namespace=n",
    "--use-legacy-policy-config",
    "--algorithm-provider=p",
    "--scheduler-name=s",
    "--hard-pod-affinity-symmetric-weight=2",
    "--lock-object-name=o",
    "--lock-object-namespace=p",
)


def test_with_a_file_the_file_counts(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(HEADER)
    called = call(MASTER, f"--config={config}", *WITHOUT_CONFIG)
    names = [flag.partition("=")[0] for flag in WITHOUT_CONFIG]
    assert called.messages == [f'"{name} has no effect: --config is set"' for name in names]
    assert only_profile(called) == ("default-scheduler", 1)
    assert called.options.election.resource_name == "kube-scheduler"


class TestLocks:
    @pytest.mark.parametrize("kind", LOCK_KINDS)
    @pytest.mark.parametrize("with_file", [True, False])
    def test_every_kind_is_accepted_by_flag(self, kind: str, with_file: bool, tmp_path: Path) -> None:
        config = tmp_path / "config.yaml"
        config.write_text(HEADER)
        files = (f"--config={config}",) if with_file else ()
        called = call(MASTER, *files, f"--leader-elect-resource-lock={kind}")
        assert called.options.election.resource_lock == kind
        if with_file:
            assert waiting_for_restart(reload(called.options)) == []

    def test_a_file_of_today_can_only_ask_for_a_lease(self, tmp_path: Path) -> None:
        config = tmp_path / "config.yaml"
        config.write_text(HEADER + "leaderElection: {resourceLock: endpoints}\n")
        called = call(MASTER, f"--config={config}")
        assert called.code == 1
        assert 'resourceLock value must be \\"leases\\"' in called.messages[-1]

    def test_a_kind_that_does_not_exist_is_refused(self, tmp_path: Path) -> None:
        config = tmp_path / "config.yaml"
        config.write_text(HEADER)
        called = call(MASTER, f"--config={config}", "--leader-elect-resource-lock=secrets")
        assert called.code == 1
        assert 'leaderElection.resourceLock: Invalid value: \\"secrets\\"' in called.messages[-1]

    def test_the_old_names_of_the_lock_are_understood_and_the_new_ones_win(self) -> None:
        election = call(
            MASTER, "--lock-object-name=a", "--lock-object-namespace=b", "--leader-elect-resource-name=c"
        ).options.election
        assert (election.resource_name, election.resource_namespace) == ("c", "b")


def old_config(folder: Path, text: str, version: str = "v1alpha1") -> Path:
    path = folder / "old.yaml"
    path.write_text(HEADER.replace("/v1\n", f"/{version}\n") + text)
    return path


class TestFilesOfEarlierVersions:
    def test_a_provider_a_name_and_a_lock_count(self, tmp_path: Path) -> None:
        text = (
            "schedulerName: mine\nalgorithmSource: {provider: ClusterAutoscalerProvider}\n"
            "leaderElection: {leaderElect: true, resourceLock: configmaps}\n"
        )
        called = call(MASTER, f"--config={old_config(tmp_path, text)}")
        assert called.options.loaded.config.profiles[0].scheduler_name == "mine"
        assert "NodeResourcesFit" in filters(called)
        assert called.options.election.resource_lock == "configmaps"
        assert waiting_for_restart(reload(called.options)) == []

    def test_a_flag_wins_over_the_lock_of_the_file(self, tmp_path: Path) -> None:
        config = old_config(tmp_path, "leaderElection: {leaderElect: true, resourceLock: endpoints}\n")
        flags = ("--leader-elect-resource-lock=leases", f"--config={config}")
        assert call(MASTER, *flags).options.election.resource_lock == "leases"

    def test_the_policy_it_refers_to_is_followed_too(self, tmp_path: Path, policy_file: Path) -> None:
        source = f"algorithmSource: {{policy: {{file: {{path: {policy_file}}}}}}}\n"
        config = old_config(tmp_path, source)
        called = call(MASTER, f"--config={config}")
        assert called.options.files == (str(config), str(policy_file))
        assert "InterPodAffinity" not in filters(called)
        policy_file.write_text(policy("MatchInterPodAffinity"))
        assert "InterPodAffinity" in str(reload(called.options).loaded.config.profiles[0].plugins)

    def test_the_config_map_it_refers_to_is_read_from_the_server_it_names(self, tmp_path: Path) -> None:
        config = old_config(
            tmp_path, "algorithmSource: {policy: {configMap: {namespace: here, name: mine}}}\n"
        )
        called = call(MASTER, f"--config={config}")
        assert (called.code, len(called.messages)) == (1, 1)
        assert called.messages[0].startswith(
            '"command failed" err="couldn\'t get policy config map here/mine: '
        )


class TestReload:
    def test_a_policy_is_read_again_with_the_flags_around_it(self, policy_file: Path) -> None:
        options = call(MASTER, f"--policy-config-file={policy_file}", "--scheduler-name=mine").options
        assert options.files == (str(policy_file),)
        policy_file.write_text(policy("MatchInterPodAffinity", hardPodAffinitySymmetricWeight=9))
        again = reload(options)
        (profile,) = again.loaded.config.profiles
        assert profile.scheduler_name == "mine"
        assert again.loaded != options.loaded
        assert waiting_for_restart(again) == []

    def test_a_policy_that_became_nonsense_is_refused(self, policy_file: Path) -> None:
        options = call(MASTER, f"--policy-config-file={policy_file}").options
        policy_file.write_text(policy("NoSuch"))
        with pytest.raises(ConfigError, match="NoSuch"):
            reload(options)


def test_old_metrics_are_shown_only_if_asked_for() -> None:
    assert not call(MASTER).options.legacy_metrics
    assert call(MASTER, "--show-legacy-metrics").options.legacy_metrics
