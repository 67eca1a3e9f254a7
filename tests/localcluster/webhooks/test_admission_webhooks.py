"""Admission webhooks that are called over TLS: requests, answers, failures, as with kube-apiserver."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from localcluster.apiserver.served import APPLY, MERGE, Answer, Served, deployment, pod, serving
from localcluster.webhooks.hookserver import (
    Json,
    WebhookServer,
    allow,
    configuration,
    deny,
    labels,
    patch,
    response,
    rule,
    webhook,
    webhooks,
)
from stowplan.localcluster.remote.calls import RemoteSettings
from stowplan.localcluster.remote.services import Address, ServiceKey

MAPS = "/api/v1/namespaces/default/configmaps"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations"
WARNING = re.compile(r'299 - "(.*)"')


def config_map(name: str = "one", **more: Any) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}, "data": {"a": "1"}}


@contextmanager
def cluster(hook: WebhookServer, *, strict: bool = False) -> Iterator[Served]:
    services = {ServiceKey("default", "hook"): Address("127.0.0.1", hook.port)}
    with serving(remote=RemoteSettings(services, strict)) as served:
        yield served


def install(served: Served, kind: str, *hooks: Json, name: str = "test") -> Answer:
    body = configuration(kind, *hooks, name=name)
    answer = served.ask("POST", CONFIGURATIONS.format(kind=kind.lower()), body)
    assert answer.code == 201, answer.body
    return answer


def warnings(answer: Answer) -> list[str]:
    return WARNING.findall("\n".join(answer.headers.get_all("Warning") or ()))


def test_a_mutating_webhook_changes_what_is_created_and_gets_what_was_requested() -> None:
    with webhooks(mutate=labels(by="hook")) as hook, cluster(hook) as served:
        install(served, "Mutating", webhook(hook.service("/mutate"), rule("configmaps")))
        made = served.ask("POST", f"{MAPS}?fieldManager=me&fieldValidation=Strict", config_map())
        assert made.body["metadata"]["labels"] == {"by": "hook"}
        [request] = hook.requests("/mutate")
        assert hook.hosts == ["hook.default.svc:443"]
        assert request.pop("uid")
        shown = request.pop("object")
        assert (shown["apiVersion"], shown["kind"], shown["data"]) == ("v1", "ConfigMap", {"a": "1"})
        assert {"uid", "creationTimestamp"}.isdisjoint(shown["metadata"])
        assert request == {
            "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "resource": {"group": "", "version": "v1", "resource": "configmaps"},
            "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
            "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
            "name": "one",
            "namespace": "default",
            "operation": "CREATE",
            "userInfo": {
                "username": "stowplan-admin",
                "uid": "stowplan-admin",
                "groups": ["system:masters", "system:authenticated"],
            },
            "oldObject": None,
            "dryRun": False,
            "options": {
                "kind": "CreateOptions",
                "apiVersion": "meta.k8s.io/v1",
                "fieldManager": "me",
                "fieldValidation": "Strict",
            },
        }


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (deny("no way"), 400, 'admission webhook "hook.example.com" denied the request: no way'),
        (
            deny("no way", code=403, reason="Forbidden"),
            403,
            'admission webhook "hook.example.com" denied the request: no way',
        ),
        (deny(reason="Because"), 400, 'admission webhook "hook.example.com" denied the request: Because'),
        (deny(code=200), 400, 'admission webhook "hook.example.com" denied the request without explanation'),
        (deny(), 400, 'admission webhook "hook.example.com" denied the request without explanation'),
    ],
    ids=["message", "code and reason", "reason", "code of a success", "nothing"],
)
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_a_denial_has_the_status_of_the_webhook(kind: str, answer: Any, code: int, message: str) -> None:
    with webhooks(check=answer) as hook, cluster(hook) as served:
        install(served, kind, webhook(hook.service("/check"), rule("configmaps")))
        refused = served.ask("POST", MAPS, config_map())
        assert (refused.code, refused.body["message"], refused.body["code"]) == (code, message, code)
        assert served.ask("GET", f"{MAPS}/one").code == 404


def _broken(text: bytes) -> Any:
    return lambda review: text


CALL = 'failed calling webhook "hook.example.com": failed to call webhook: '
POSTED = f'{CALL}Post "https://hook.default.svc:443/check?timeout=10s": '
INVALID = 'failed calling webhook "hook.example.com": received invalid webhook response: '
REVIEW = "admission.k8s.io/v1, Kind="
PATCH_WITHOUT_TYPE = "webhook returned response.patch but not response.patchType"


def _of_another(review: Json) -> Json:
    return response({**review, "request": {"uid": "x"}}, allowed=True)


def _without_response(review: Json) -> Json:
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}


FAILURES: dict[str, tuple[Any, str]] = {
    "no JSON": (
        _broken(b"<html>"),
        f"{CALL}couldn't get version/kind; json parse error: invalid character '<' looking for",
    ),
    "another uid": (_of_another, f'{INVALID}expected response.uid="'),
    "another kind": (
        lambda review: {**allow(review), "kind": "Pod"},
        f"{INVALID}expected webhook response of {REVIEW}AdmissionReview, got {REVIEW}Pod",
    ),
    "no response": (_without_response, f"{INVALID}webhook response was absent"),
    "a patch without its type": (
        lambda review: response(review, allowed=True, patch="W10="),
        f"{INVALID}{PATCH_WITHOUT_TYPE}",
    ),
    "an error": (
        lambda review: lambda handler: handler.send_error(500, "broken"),
        "has prevented the request from succeeding",
    ),
    "a redirect": (lambda review: redirect, "the server rejected our request"),
    "a long answer": (_broken(b'"' + b"x" * (7 << 20) + b'"'), "the response is longer than 6291456 bytes"),
    "a deep answer": (_broken(b"[" * 5000 + b"]" * 5000), "the response is n"),
    "a broken connection": (lambda review: lambda handler: handler.connection.close(), POSTED),
}


def redirect(handler: Any) -> None:
    handler.send_response(307)
    handler.send_header("Location", "https://example.invalid/")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


@pytest.mark.parametrize("failure", list(FAILURES))
def test_a_webhook_without_a_usable_answer_fails_the_request_unless_it_may_be_ignored(failure: str) -> None:
    answer, message = FAILURES[failure]
    with webhooks(check=answer) as hook, cluster(hook) as served:
        install(served, "Mutating", webhook(hook.service("/check"), rule("configmaps")))
        refused = served.ask("POST", MAPS, config_map())
        assert refused.code == 500
        assert refused.body["reason"] == "InternalError"
        assert refused.body["message"].startswith("Internal error occurred: failed calling webhook")
        assert message in refused.body["message"]
        assert len(refused.body["message"]) < 1000
        change = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Ignore"}]
        path = CONFIGURATIONS.format(kind="mutating") + "/test"
        assert served.ask("PATCH", path, change, Content_Type="application/json-patch+json").code == 200
        assert served.ask("POST", MAPS, config_map()).code == 201


BOMBS = {
    "a huge copy": [
        {"op": "add", "path": "/data/x", "value": "x" * 1000},
        *({"op": "copy", "from": "/data", "path": f"/data/c{i}"} for i in range(30)),
    ],
    "a deep object": [{"op": "add", "path": "/data/x", "value": json.loads("[" * 90 + "]" * 90)}],
    "wrong types": [{"op": "add", "path": "/data", "value": {"a": 5}}],
    "a missing path": [{"op": "remove", "path": "/spec/nothing"}],
    "no object": [{"op": "replace", "path": "", "value": 5}],
}


@pytest.mark.parametrize("bomb", list(BOMBS))
def test_a_patch_that_cannot_be_applied_is_refused_with_a_line(bomb: str) -> None:
    with webhooks(mutate=patch(*BOMBS[bomb])) as hook, cluster(hook) as served:
        install(served, "Mutating", webhook(hook.service("/mutate"), rule("configmaps")))
        refused = served.ask("POST", MAPS, config_map())
        assert (refused.code, refused.body["reason"]) == (500, "InternalError")
        assert "\n" not in refused.body["message"]
        assert len(refused.body["message"]) < 500


def test_a_webhook_that_hangs_costs_its_request_the_timeout_and_others_nothing() -> None:
    def hang(review: Json) -> Any:
        hook.released.wait()
        return allow(review)

    with webhooks(check=hang) as hook, cluster(hook) as served:
        given = webhook(hook.service("/check"), rule("configmaps"), timeoutSeconds=1)
        install(served, "Validating", given)
        connection = served.connection()
        connection.request("POST", MAPS, json.dumps(config_map()), served.headers())
        # Answered while the other request waits.
        assert served.ask("POST", "/api/v1/namespaces", {"metadata": {"name": "other"}}).code == 201
        refused = connection.getresponse()
        body = json.loads(refused.read())
        connection.close()
        where = 'Post "https://hook.default.svc:443/check?timeout=1s"'
        expected = f"failed to call webhook: {where}: context deadline exceeded"
        assert (refused.status, expected in body["message"]) == (500, True), body


def test_a_certificate_must_be_trusted_and_have_the_name_of_the_service() -> None:
    with webhooks("other.default.svc", check=allow) as hook, cluster(hook) as served:
        install(served, "Validating", webhook(hook.service("/check"), rule("configmaps")))
        refused = served.ask("POST", MAPS, config_map())
        assert "tls: failed to verify certificate: x509: certificate is not valid" in refused.body["message"]
    with webhooks(check=allow) as hook, cluster(hook) as served:
        untrusted = {**hook.service("/check"), "caBundle": None}
        install(served, "Validating", webhook(untrusted, rule("configmaps")))
        refused = served.ask("POST", MAPS, config_map())
        assert "x509: certificate signed by unknown authority" in refused.body["message"]
        assert hook.reviews == []


def test_webhooks_are_called_by_name_and_see_the_changes_before_them() -> None:
    with (
        webhooks(a=labels(a="1"), b=labels(b="2"), c=labels(c="3"), check=allow) as hook,
        cluster(hook) as served,
    ):
        maps = rule("configmaps")
        install(served, "Mutating", webhook(hook.service("/c"), maps, name="c.example.com"), name="later")
        two = [webhook(hook.service(f"/{name}"), maps, name=f"{name}.example.com") for name in "ba"]
        install(served, "Mutating", *two, name="first")
        install(served, "Validating", webhook(hook.service("/check"), maps))
        made = served.ask("POST", MAPS, config_map())
        assert made.body["metadata"]["labels"] == {"a": "1", "b": "2", "c": "3"}
        assert [path for path, _ in hook.reviews] == ["/b", "/a", "/c", "/check"]
        last = hook.requests("/check")[0]["object"]
        assert last["metadata"]["labels"] == made.body["metadata"]["labels"]
        assert last["metadata"]["uid"] == made.body["metadata"]["uid"]


def test_a_webhook_is_called_again_if_a_later_one_changes_the_object_and_it_asks_for_that() -> None:
    with webhooks(first=allow, second=labels(b="2")) as hook, cluster(hook) as served:
        maps = rule("configmaps")
        install(
            served,
            "Mutating",
            webhook(hook.service("/first"), maps, name="a.example.com", reinvocationPolicy="IfNeeded"),
            webhook(hook.service("/second"), maps, name="b.example.com"),
        )
        assert served.ask("POST", MAPS, config_map()).code == 201
        assert [path for path, _ in hook.reviews] == ["/first", "/second", "/first"]
        assert hook.requests("/first")[1]["object"]["metadata"]["labels"] == {"b": "2"}


def test_updates_patches_and_applies_have_the_old_object_and_their_options() -> None:
    with webhooks(check=allow) as hook, cluster(hook) as served:
        served.ask("POST", MAPS, config_map())
        install(
            served, "Validating", webhook(hook.service("/check"), rule("*", operations=("UPDATE", "DELETE")))
        )
        served.ask("PUT", f"{MAPS}/one", {**config_map(), "data": {"a": "2"}})
        served.ask("PATCH", f"{MAPS}/one", {"data": {"a": "3"}}, Content_Type=MERGE)
        applied = json.dumps({**config_map(), "data": {"b": "1"}}).encode()
        served.ask("PATCH", f"{MAPS}/one?fieldManager=me&force=true", applied, Content_Type=APPLY)
        served.ask("DELETE", f"{MAPS}/one", {"gracePeriodSeconds": 3})
        found = [
            (
                one["operation"],
                one["options"]["kind"],
                one["oldObject"]["data"],
                (one["object"] or {}).get("data"),
            )
            for one in hook.requests("/check")
        ]
        assert found == [
            ("UPDATE", "UpdateOptions", {"a": "1"}, {"a": "2"}),
            ("UPDATE", "PatchOptions", {"a": "2"}, {"a": "3"}),
            ("UPDATE", "PatchOptions", {"a": "3"}, {"a": "3", "b": "1"}),
            ("DELETE", "DeleteOptions", {"a": "3", "b": "1"}, None),
        ]
        assert hook.requests("/check")[2]["options"]["force"] is True
        assert hook.requests("/check")[3]["options"]["gracePeriodSeconds"] == 3


def test_dry_runs_call_only_webhooks_without_side_effects() -> None:
    with webhooks(check=allow) as hook, cluster(hook) as served:
        maps = rule("configmaps")
        install(served, "Validating", webhook(hook.service("/check"), maps, sideEffects="NoneOnDryRun"))
        assert served.ask("POST", f"{MAPS}?dryRun=All", config_map()).code == 201
        assert hook.requests("/check")[0]["dryRun"] is True
        v1beta1 = webhook(hook.service("/check"), maps, sideEffects="None", name="b.example.com")
        install(served, "Mutating", v1beta1)
        served.run(lambda store: _with_side_effects(store))
        refused = served.ask("POST", f"{MAPS}?dryRun=All", config_map())
        text = 'admission webhook "b.example.com" does not support dry run'
        assert (refused.code, refused.body["message"]) == (400, text)
        assert served.ask("POST", MAPS, config_map()).code == 201


def _with_side_effects(store: Any) -> None:
    """Have a configuration from a time when webhooks did not have to say that they have no side effects."""
    from stowplan.api.catalogue import MUTATING_WEBHOOK_CONFIGURATIONS as RESOURCE

    old = store.get(RESOURCE, "", "test")
    store.rewrite(RESOURCE, old, {**old, "webhooks": [{**old["webhooks"][0], "sideEffects": "Unknown"}]})


def test_warnings_and_match_conditions() -> None:
    def warn(review: Json) -> Json:
        return response(review, allowed=True, warnings=["mind the gap"])

    condition = {
        "name": "named",
        "expression": "object.metadata.name == 'yes' && request.operation == 'CREATE'",
    }
    with webhooks(check=warn) as hook, cluster(hook) as served:
        given = webhook(hook.service("/check"), rule("configmaps"), matchConditions=[condition])
        install(served, "Validating", given)
        assert warnings(served.ask("POST", MAPS, config_map("no"))) == []
        assert warnings(served.ask("POST", MAPS, config_map("yes"))) == ["mind the gap"]
        assert [one["name"] for one in hook.requests("/check")] == ["yes"]


def test_a_match_condition_that_fails_refuses_the_request() -> None:
    condition = {"name": "broken", "expression": "object.spec.nothing == 'yes'"}
    with webhooks(check=allow) as hook, cluster(hook) as served:
        install(
            served,
            "Validating",
            webhook(hook.service("/check"), rule("configmaps"), matchConditions=[condition]),
        )
        refused = served.ask("POST", MAPS, config_map())
        assert refused.code == 403
        assert refused.body["message"].startswith('configmaps "one" is forbidden: ')
        assert hook.reviews == []


def test_equivalent_versions_are_converted_for_the_webhook() -> None:
    with webhooks(check=allow, mutate=labels(by="hook")) as hook, cluster(hook) as served:
        v2 = rule("horizontalpodautoscalers", groups=("autoscaling",), versions=("v2",))
        install(served, "Mutating", webhook(hook.service("/mutate"), v2))
        install(served, "Validating", webhook(hook.service("/check"), v2, matchPolicy="Exact"))
        path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
        spec = {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "maxReplicas": 3,
            "targetCPUUtilizationPercentage": 70,
        }
        made = served.ask("POST", path, {"metadata": {"name": "web"}, "spec": spec})
        assert made.code == 201, made.body
        assert made.body["metadata"]["labels"] == {"by": "hook"}
        assert made.body["spec"]["targetCPUUtilizationPercentage"] == 70
        [request] = hook.requests("/mutate")
        assert hook.requests("/check") == []
        assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1")
        assert request["object"]["apiVersion"] == "autoscaling/v2"
        assert request["object"]["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70


def test_subresources_have_their_own_kinds() -> None:
    with webhooks(check=allow, never=allow) as hook, cluster(hook) as served:
        every = ("CREATE", "UPDATE", "DELETE", "CONNECT")
        parts = rule("pods/*", "deployments/scale", operations=every)
        install(served, "Validating", webhook(hook.service("/check"), parts))
        assert served.ask("POST", "/api/v1/namespaces/default/pods", pod("p")).code == 201
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}
        assert served.ask("POST", "/api/v1/namespaces/default/pods/p/binding", binding).code == 201
        status = {"status": {"phase": "Running"}}
        served.ask("PATCH", "/api/v1/namespaces/default/pods/p/status", status, Content_Type=MERGE)
        served.ask("POST", "/api/v1/namespaces/default/pods/p/eviction", {"metadata": {"name": "p"}})
        served.ask("POST", "/apis/apps/v1/namespaces/default/deployments", deployment("web"))
        scale = "/apis/apps/v1/namespaces/default/deployments/web/scale"
        served.ask("PATCH", scale, {"spec": {"replicas": 5}}, Content_Type=MERGE)
        found = [
            (
                one["operation"],
                one.get("subResource"),
                one["kind"]["kind"],
                one["object"]["kind"],
                one["name"],
            )
            for one in hook.requests("/check")
        ]
        assert found == [
            ("CREATE", None, "Pod", "Pod", "p"),
            ("CREATE", "binding", "Binding", "Binding", "p"),
            ("UPDATE", "status", "Pod", "Pod", "p"),
            ("CREATE", "eviction", "Eviction", "Eviction", "p"),
            ("UPDATE", "scale", "Scale", "Scale", "web"),
        ]
        assert hook.requests("/check")[-1]["object"]["spec"] == {"replicas": 5}
        assert hook.requests("/check")[-1]["oldObject"]["spec"] == {"replicas": 2}


def test_an_update_that_lost_a_race_calls_the_webhook_again_for_the_new_object() -> None:
    def race(review: Json) -> Json:
        if len(hook.reviews) == 1:
            served.ask("PATCH", f"{MAPS}/one", {"data": {"b": "2"}}, Content_Type=MERGE)
        return allow(review)

    condition = {
        "name": "not-b",
        "expression": "request.userInfo.username != '' && !('b' in object.data) || 'c' in object.data",
    }
    with webhooks(check=race) as hook, cluster(hook) as served:
        served.ask("POST", MAPS, config_map())
        given = webhook(
            hook.service("/check"), rule("configmaps", operations=("UPDATE",)), matchConditions=[condition]
        )
        install(served, "Validating", given)
        answer = served.ask("PATCH", f"{MAPS}/one", {"data": {"c": "3"}}, Content_Type=MERGE)
        assert answer.body["data"] == {"a": "1", "b": "2", "c": "3"}
        assert [one["object"]["data"] for one in hook.requests("/check")] == [
            {"a": "1", "c": "3"},
            {"a": "1", "b": "2", "c": "3"},
        ]


def test_configurations_are_never_sent_to_webhooks() -> None:
    with webhooks(check=deny("locked")) as hook, cluster(hook) as served:
        every = ("CREATE", "UPDATE", "DELETE")
        install(served, "Validating", webhook(hook.service("/check"), rule("*/*", operations=every)))
        assert served.ask("POST", MAPS, config_map()).code == 400
        assert served.ask("DELETE", CONFIGURATIONS.format(kind="validating") + "/test").code == 200
        assert served.ask("POST", MAPS, config_map()).code == 201


def test_version_v1beta1_is_sent_to_those_who_ask_for_it() -> None:
    def mutate(review: Json) -> Json:
        made = patch({"op": "add", "path": "/data/b", "value": "2"})(review)
        del made["response"]["uid"]
        return {"response": made["response"]}

    with webhooks(mutate=mutate) as hook, cluster(hook) as served:
        given = webhook(
            hook.service("/mutate"), rule("configmaps"), admissionReviewVersions=["v1beta1", "v1"]
        )
        install(served, "Mutating", given)
        assert served.ask("POST", MAPS, config_map()).body["data"] == {"a": "1", "b": "2"}
        assert hook.reviews[0][1]["apiVersion"] == "admission.k8s.io/v1beta1"


def test_a_service_with_nobody_behind_it_is_skipped_with_a_warning() -> None:
    with webhooks() as hook, cluster(hook) as served:
        away = {"service": {"name": "away", "namespace": "default", "path": "/check"}}
        answer = install(served, "Validating", webhook(away, rule("configmaps")))
        [warning] = warnings(answer)
        assert warning.startswith("webhooks of test are skipped: nothing answers at service away.default:443")
        assert warnings(served.ask("POST", MAPS, config_map())) == []


def test_a_webhook_is_called_as_soon_as_somebody_writes_its_endpoints() -> None:
    with webhooks(check=deny("no")) as hook, serving(remote=RemoteSettings()) as served:
        client = hook.service("/check", port=hook.port)
        install(served, "Validating", webhook(client, rule("configmaps")))
        assert served.ask("POST", MAPS, config_map()).code == 201
        spec = {"type": "ExternalName", "externalName": "localhost"}
        assert (
            served.ask(
                "POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "hook"}, "spec": spec}
            ).code
            == 201
        )
        assert served.ask("POST", MAPS, config_map("two")).code == 400


def test_a_strict_cluster_fails_as_a_real_one_does() -> None:
    with webhooks() as hook, cluster(hook, strict=True) as served:
        away = {"service": {"name": "away", "namespace": "default", "path": "/check"}}
        assert warnings(install(served, "Validating", webhook(away, rule("configmaps")))) == []
        refused = served.ask("POST", MAPS, config_map())
        text = (
            'Internal error occurred: failed calling webhook "hook.example.com": failed to call webhook: '
            'Post "https://away.default.svc:443/check?timeout=10s": service "away" not found'
        )
        assert (refused.code, refused.body["message"]) == (500, text)


def test_urls_and_endpoints_that_somebody_wrote_are_called() -> None:
    with webhooks(url=allow, written=allow) as hook, serving(remote=RemoteSettings()) as served:
        maps = rule("configmaps")
        install(served, "Validating", webhook(hook.url("/url"), maps), name="url")
        service = {
            "metadata": {"name": "hook"},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        }
        assert served.ask("POST", "/api/v1/namespaces/default/services", service).code == 201
        client = hook.service("/written", port=hook.port)
        assert warnings(install(served, "Validating", webhook(client, maps), name="written")) == []
        assert served.ask("POST", MAPS, config_map()).code == 201
        assert sorted(path for path, _ in hook.reviews) == ["/url", "/written"]


def test_delete_collection_is_admitted_object_by_object() -> None:
    def but_two(review: Json) -> Json:
        return deny("kept")(review) if review["request"]["name"] == "two" else allow(review)

    with webhooks(check=but_two) as hook, cluster(hook) as served:
        for name in ("one", "two"):
            served.ask("POST", MAPS, config_map(name))
        install(
            served, "Validating", webhook(hook.service("/check"), rule("configmaps", operations=("DELETE",)))
        )
        assert served.ask("DELETE", MAPS).code == 400
        left = served.ask("GET", MAPS).body["items"]
        assert "two" in [one["metadata"]["name"] for one in left]
