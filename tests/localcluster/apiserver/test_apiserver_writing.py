"""Creating, replacing, patching, applying, deleting, binding and evicting over HTTP."""

from typing import Any

import pytest

from localcluster.apiserver.served import APPLY, JSON_PATCH, MERGE, PODS, STRATEGIC, Served, deployment, pod

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MAPS = "/api/v1/namespaces/default/configmaps"


def test_what_is_created_comes_back_as_it_is_kept(api: Served) -> None:
    answer = api.ask("POST", PODS, pod("made"))
    assert answer.code == 201
    assert answer.body["metadata"]["uid"]
    assert answer.body["spec"]["schedulerName"] == "default-scheduler"
    assert api.ask("GET", f"{PODS}/made").body == answer.body
    again = api.ask("POST", PODS, pod("made"))
    assert (again.code, again.body["reason"]) == (409, "AlreadyExists")
    assert again.body["details"] == {"name": "made", "kind": "pods"}


def test_yaml_is_read_too(api: Served) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ndata: {a: '1', when: 2026-01-01}\n"
    answer = api.ask("POST", MAPS, text, Content_Type="application/yaml")
    assert answer.code == 201, answer.body
    assert answer.body["data"] == {"a": "1", "when": "2026-01-01"}
    lines = [b"a0: &a0 [x]"]
    lines += [b"a%d: &a%d [%s]" % (i, i, b", ".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 9)]
    answer = api.ask("POST", MAPS, b"\n".join(lines), Content_Type="application/yaml")
    assert answer.code == 400, answer.body


def test_a_generated_name_is_told(api: Served) -> None:
    name = api.ask("POST", PODS, pod(generateName="made-")).body["metadata"]["name"]
    assert name.startswith("made-")
    assert len(name) == 10


def test_unknown_fields_are_left_out_with_a_warning_or_refused(api: Served) -> None:
    body = pod("odd", spec={"color": "red"})
    body["metadata"]["size"] = 3
    strict = api.ask("POST", f"{PODS}?fieldValidation=Strict", body)
    assert strict.code == 400
    assert strict.body["message"].endswith(
        'strict decoding error: unknown field "metadata.size", unknown field "spec.color"'
    )
    warned = api.ask("POST", PODS, body)
    assert warned.code == 201
    assert warned.headers.get_all("Warning") == [
        '299 - "unknown field \\"metadata.size\\""',
        '299 - "unknown field \\"spec.color\\""',
    ]
    assert "color" not in warned.body["spec"]
    body["metadata"]["name"] = "odd2"
    assert api.ask("POST", f"{PODS}?fieldValidation=Ignore", body).headers.get("Warning") is None


def test_unknown_and_duplicate_fields_are_told_in_the_order_of_the_text(api: Served) -> None:
    text = b"""{"spec": {"odd": 1, "containers": [{"name": "a", "image": "i", "image": "i", "odd": {}}],
        "nodeName": "", "nodeName": "n"}, "also": 2, "metadata": {"name": "ordered", "name": "ordered"}}"""
    refused = api.ask("POST", f"{PODS}?fieldValidation=Strict", text).body["message"]
    assert refused.partition("strict decoding error: ")[2].split(", ") == [
        'unknown field "spec.odd"',
        'duplicate field "spec.containers[0].image"',
        'unknown field "spec.containers[0].odd"',
        'duplicate field "spec.nodeName"',
        'unknown field "also"',
        'duplicate field "metadata.name"',
    ]


def test_a_try_changes_nothing(api: Served) -> None:
    version = api.run(lambda store: store.version)
    made = api.ask("POST", f"{PODS}?dryRun=All", pod("tried"))
    assert (made.code, made.body["spec"]["dnsPolicy"]) == (201, "ClusterFirst")
    assert api.ask("GET", f"{PODS}/tried").code == 404
    api.ask("POST", PODS, pod("kept"))
    patched = api.ask(
        "PATCH", f"{PODS}/kept?dryRun=All", {"metadata": {"labels": {"a": "b"}}}, Content_Type=MERGE
    )
    assert patched.body["metadata"]["labels"] == {"a": "b"}
    assert api.ask("DELETE", f"{PODS}/kept?dryRun=All").code == 200
    assert api.ask("DELETE", f"{PODS}/kept", {"dryRun": ["All"]}).code == 200
    assert "labels" not in api.ask("GET", f"{PODS}/kept").body["metadata"]
    assert api.run(lambda store: store.version) == version + 1


@pytest.mark.parametrize(
    ("patch", "kind"),
    [
        ({"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "new"}]}}}}, STRATEGIC),
        ([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "new"}], JSON_PATCH),
        (
            {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "new"}]}}}},
            MERGE,
        ),
    ],
)
def test_patches_of_every_kind_change_what_they_say(api: Served, patch: Any, kind: str) -> None:
    name = f"patched-{len(kind)}"
    assert api.ask("POST", DEPLOYMENTS, deployment(name)).code == 201
    answer = api.ask("PATCH", f"{DEPLOYMENTS}/{name}", patch, Content_Type=kind)
    assert answer.code == 200, answer.body
    assert answer.body["spec"]["template"]["spec"]["containers"][0]["image"] == "new"
    assert answer.body["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("patch", "kind", "code"),
    [
        ({"spec": {"containers": 5}}, MERGE, 422),
        ({"kind": "Secret"}, MERGE, 422),
        ({"apiVersion": "v2"}, MERGE, 422),
        ({"metadata": {"resourceVersion": "1"}}, MERGE, 409),
        ({"metadata": {"name": "other"}}, MERGE, 400),
        ({"metadata": {"uid": "other"}}, MERGE, 422),
        ({"metadata": {"uid": "other"}}, STRATEGIC, 422),
        ([{"op": "replace", "path": "/metadata/uid", "value": "other"}], JSON_PATCH, 422),
        ([{"op": "test", "path": "/spec/nodeName", "value": "n"}], JSON_PATCH, 422),
        ([{"op": "fly"}], JSON_PATCH, 400),
        ({"spec": {"containers": [{"image": "nameless"}]}}, STRATEGIC, 422),
        ("text", STRATEGIC, 400),
        ({"spec": {"nodeName": "n"}}, MERGE, 422),
    ],
)
def test_patches_that_do_not_fit_are_refused(api: Served, patch: Any, kind: str, code: int) -> None:
    api.ask("POST", PODS, pod("fixed"))
    before = api.ask("GET", f"{PODS}/fixed").body
    answer = api.ask("PATCH", f"{PODS}/fixed", patch, Content_Type=kind)
    assert answer.code == code, answer.body
    assert api.ask("GET", f"{PODS}/fixed").body == before


def test_an_update_needs_the_latest_version(api: Served) -> None:
    old = api.ask("POST", MAPS, {"metadata": {"name": "m"}, "data": {"a": "1"}}).body
    new = {**old, "data": {"a": "2"}}
    assert api.ask("PUT", f"{MAPS}/m", new).body["data"] == {"a": "2"}
    stale = api.ask("PUT", f"{MAPS}/m", {**old, "data": {"a": "3"}})
    assert (stale.code, stale.body["reason"]) == (409, "Conflict")
    other = api.ask("PUT", f"{MAPS}/n", new)
    assert other.code == 400
    assert "does not match" in other.body["message"]


def test_status_is_written_apart(api: Served) -> None:
    api.ask("POST", PODS, pod("told"))
    patch = {"status": {"phase": "Running"}, "metadata": {"labels": {"a": "b"}}}
    answer = api.ask("PATCH", f"{PODS}/told/status", patch, Content_Type=STRATEGIC)
    assert answer.body["status"]["phase"] == "Running"
    assert answer.body["metadata"]["labels"] == {"a": "b"}
    assert api.ask("GET", f"{PODS}/told/status").body["status"]["phase"] == "Running"
    ignored = api.ask("PATCH", f"{PODS}/told", {"status": {"phase": "Failed"}}, Content_Type=MERGE)
    assert ignored.body["status"]["phase"] == "Running"


def test_a_pod_is_bound_in_both_ways(api: Served) -> None:
    api.ask("POST", PODS, pod("one"))
    api.ask("POST", PODS, pod("two"))
    target = {"target": {"kind": "Node", "name": "n"}}
    assert api.ask("POST", f"{PODS}/one/binding", {"metadata": {"name": "one"}, **target}).code == 201
    body = {"metadata": {"name": "two"}, **target}
    assert api.ask("POST", "/api/v1/namespaces/default/bindings", body).code == 201
    for name in ("one", "two"):
        assert api.ask("GET", f"{PODS}/{name}").body["spec"]["nodeName"] == "n"
    again = api.ask("POST", f"{PODS}/one/binding", {"metadata": {"name": "one"}, **target})
    assert again.body["message"] == (
        'Operation cannot be fulfilled on pods/binding "one": pod one is already assigned to node "n"'
    )


def test_an_eviction_asks_the_budget(api: Served) -> None:
    api.ask("POST", PODS, pod("guarded", labels={"app": "g"}))
    api.ask("POST", f"{PODS}/guarded/binding", {"target": {"name": "n"}})
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    api.ask("PATCH", f"{PODS}/guarded/status", {"status": ready}, Content_Type=MERGE)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "g"}}},
    }
    api.ask("POST", budgets, budget)
    told = {
        "status": {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    }
    api.ask("PATCH", f"{budgets}/b/status", told, Content_Type=MERGE)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "guarded"}}
    refused = api.ask("POST", f"{PODS}/guarded/eviction", eviction)
    assert (refused.code, refused.body["reason"]) == (429, "TooManyRequests")
    told["status"]["disruptionsAllowed"] = 1
    api.ask("PATCH", f"{budgets}/b/status", told, Content_Type=MERGE)
    assert api.ask("POST", f"{PODS}/guarded/eviction", eviction).code == 201
    assert "deletionTimestamp" in api.ask("GET", f"{PODS}/guarded").body["metadata"]


IMMUTABLE_UID = {
    "reason": "FieldValueInvalid",
    "message": 'Invalid value: "other": field is immutable',
    "field": "metadata.uid",
}
MISMATCH = "does not match the {0} in record ({1}). The object might have been {2}"


def test_what_is_meant_for_an_object_that_was_replaced_is_refused(api: Served) -> None:
    api.ask("POST", MAPS, {"metadata": {"name": "again"}})
    old = api.ask("GET", f"{MAPS}/again").body["metadata"]
    api.ask("DELETE", f"{MAPS}/again")
    new = api.ask("POST", MAPS, {"metadata": {"name": "again"}, "data": {"a": "1"}}).body
    uid, version = new["metadata"]["uid"], new["metadata"]["resourceVersion"]

    put = api.ask("PUT", f"{MAPS}/again", {"metadata": {"name": "again", "uid": old["uid"]}})
    assert (put.code, put.body["reason"], put.body["details"]) == (
        409,
        "Conflict",
        {"name": "again", "kind": "configmaps"},
    )
    assert put.body["message"].endswith(
        f"Precondition failed: UID in precondition: {old['uid']}, UID in object meta: {uid}"
    )

    delete = api.ask("DELETE", f"{MAPS}/again", {"preconditions": {"uid": old["uid"]}})
    assert (delete.code, delete.body["details"]) == (409, {"name": "again", "kind": "ConfigMap"})
    assert delete.body["message"] == (
        f'Operation cannot be fulfilled on ConfigMap "again": the UID in the precondition ({old["uid"]}) '
        + MISMATCH.format("UID", uid, "deleted and then recreated")
    )
    stale = api.ask("DELETE", f"{MAPS}/again", {"preconditions": {"uid": uid, "resourceVersion": "1"}})
    assert stale.code == 409
    assert stale.body["message"] == (
        'Operation cannot be fulfilled on ConfigMap "again": the ResourceVersion in the precondition (1) '
        + MISMATCH.format("ResourceVersion", version, "modified")
    )
    assert api.ask("GET", f"{MAPS}/again").body == new
    right = api.ask("DELETE", f"{MAPS}/again", {"preconditions": {"uid": uid, "resourceVersion": version}})
    assert right.code == 200


@pytest.mark.parametrize("subresource", ["", "/status"])
def test_a_patch_with_another_uid_is_a_change_of_a_field_that_must_not_change(
    api: Served, subresource: str
) -> None:
    api.ask("POST", PODS, pod("same"))
    before = api.ask("GET", f"{PODS}/same").body
    patch = {"metadata": {"uid": "other"}, "status": {"message": "hello"}}
    answer = api.ask("PATCH", f"{PODS}/same{subresource}", patch, Content_Type=MERGE)
    assert answer.code == 422
    assert answer.body["message"] == (
        'Pod "same" is invalid: metadata.uid: Invalid value: "other": field is immutable'
    )
    assert answer.body["details"] == {"name": "same", "kind": "Pod", "causes": [IMMUTABLE_UID] * 2}
    own = {**patch, "metadata": {"uid": before["metadata"]["uid"]}}
    assert api.ask("PATCH", f"{PODS}/same{subresource}", own, Content_Type=MERGE).code == 200


def test_deleting_tells_what_became_of_it(api: Served) -> None:
    made = api.ask("POST", MAPS, {"metadata": {"name": "gone"}}).body["metadata"]
    wrong = api.ask("DELETE", f"{MAPS}/gone", {"preconditions": {"uid": "other"}})
    assert wrong.code == 409
    answer = api.ask("DELETE", f"{MAPS}/gone")
    assert answer.body["status"] == "Success"
    assert answer.body["details"] == {"name": "gone", "kind": "configmaps", "uid": made["uid"]}
    api.ask("POST", PODS, pod("slow", spec={"nodeName": "n"}))
    dying = api.ask("DELETE", f"{PODS}/slow?gracePeriodSeconds=7").body
    assert dying["metadata"]["deletionGracePeriodSeconds"] == 7
    assert api.ask("DELETE", f"{PODS}/slow", {"gracePeriodSeconds": 0}).code == 200
    assert api.ask("GET", f"{PODS}/slow").code == 404


@pytest.mark.parametrize(("policy", "held"), [("Foreground", ["foregroundDeletion"]), ("Orphan", ["orphan"])])
def test_what_is_owned_can_go_first_or_stay(api: Served, policy: str, held: list[str]) -> None:
    name = f"owner-{policy.lower()}"
    api.ask("POST", DEPLOYMENTS, deployment(name))
    answer = api.ask("DELETE", f"{DEPLOYMENTS}/{name}", {"propagationPolicy": policy})
    assert answer.body["metadata"]["finalizers"] == held
    assert "deletionTimestamp" in answer.body["metadata"]
    assert api.ask("DELETE", f"{DEPLOYMENTS}/{name}?propagationPolicy=Sideways").code == 422


def test_a_collection_is_deleted_by_selector(api: Served) -> None:
    for number in range(4):
        api.ask("POST", MAPS, {"metadata": {"name": f"c{number}", "labels": {"odd": str(number % 2)}}})
    answer = api.ask("DELETE", f"{MAPS}?labelSelector=odd%3D1")
    assert [item["metadata"]["name"] for item in answer.body["items"]] == ["c1", "c3"]
    left = api.ask("GET", f"{MAPS}?labelSelector=odd").body["items"]
    assert [item["metadata"]["name"] for item in left] == ["c0", "c2"]


def test_a_namespace_stays_until_it_is_finalized(api: Served) -> None:
    path = "/api/v1/namespaces"
    assert api.ask("POST", path, {"metadata": {"name": "room"}}).body["spec"] == {
        "finalizers": ["kubernetes"]
    }
    dying = api.ask("DELETE", f"{path}/room").body
    assert dying["status"]["phase"] == "Terminating"
    refused = api.ask("POST", f"{path}/room/pods", pod("late"))
    assert (refused.code, refused.body["reason"]) == (403, "Forbidden")
    assert refused.body["message"].endswith("in namespace room because it is being terminated")
    assert api.ask("PUT", f"{path}/room/finalize", {**dying, "spec": {}}).code == 200
    assert api.ask("GET", f"{path}/room").code == 404
    lasting = api.ask("DELETE", f"{path}/default")
    assert (lasting.code, lasting.body["reason"]) == (403, "Forbidden")


def applied(api: Served, name: str, data: dict[str, str], manager: str, **query: str) -> Any:
    more = "".join(f"&{key}={value}" for key, value in query.items())
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    return api.ask("PATCH", f"{MAPS}/{name}?fieldManager={manager}{more}", body, Content_Type=APPLY)


def test_applying_creates_changes_and_takes_away(api: Served) -> None:
    assert applied(api, "app", {"a": "1", "b": "2"}, "me").code == 201
    answer = applied(api, "app", {"a": "3", "c": "4"}, "me")
    assert (answer.code, answer.body["data"]) == (200, {"a": "3", "c": "4"})
    version = answer.body["metadata"]["resourceVersion"]
    assert applied(api, "app", {"a": "3", "c": "4"}, "me").body["metadata"]["resourceVersion"] == version
    entry = answer.body["metadata"]["managedFields"][0]
    assert (entry["manager"], entry["operation"]) == ("me", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}, "f:c": {}}}


def test_applying_what_somebody_else_manages_is_a_conflict_unless_it_is_forced(api: Served) -> None:
    applied(api, "shared", {"a": "1"}, "first")
    same = applied(api, "shared", {"a": "1", "b": "2"}, "second")
    assert same.body["data"] == {"a": "1", "b": "2"}
    refused = applied(api, "shared", {"a": "9", "b": "2"}, "second")
    assert (refused.code, refused.body["reason"]) == (409, "Conflict")
    assert refused.body["message"] == 'Apply failed with 1 conflict: conflict with "first": .data.a'
    assert refused.body["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "first"', "field": ".data.a"}
    ]
    forced = applied(api, "shared", {"a": "9", "b": "2"}, "second", force="true")
    assert forced.body["data"]["a"] == "9"
    let_go = applied(api, "shared", {}, "first")
    assert let_go.body["data"] == {"a": "9", "b": "2"}


def test_an_update_makes_its_writer_the_manager(api: Served) -> None:
    obj = applied(api, "edited", {"a": "1", "b": "2"}, "me").body
    api.ask("PUT", f"{MAPS}/edited?fieldManager=editor", {**obj, "data": {"a": "5", "b": "2"}})
    refused = applied(api, "edited", {"a": "1", "b": "2"}, "me")
    assert refused.code == 409
    assert 'conflict with "editor" using v1: .data.a' in refused.body["message"]


def test_unknown_fields_cannot_be_applied_whatever_the_validation(api: Served) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd"}, "datum": {}}
    path = f"{MAPS}/odd?fieldManager=me&fieldValidation=Ignore"
    answer = api.ask("PATCH", path, body, Content_Type=APPLY)
    assert answer.code == 500
    assert answer.body["message"] == (
        "failed to create typed patch object (default/odd; v1, Kind=ConfigMap): "
        ".datum: field not declared in schema"
    )
    twice = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd}\ndata: {a: b, a: c}\n"
    refused = api.ask("PATCH", path, twice, Content_Type=APPLY)
    assert refused.code == 400
    assert 'key "a" already set in map' in refused.body["message"]


def test_applied_lists_are_merged_by_their_keys(api: Served) -> None:
    made = deployment("lists")
    api.ask("POST", DEPLOYMENTS, made)
    extra = {"name": "side", "image": "registry.example/side:1"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "lists"},
        "spec": {"template": {"spec": {"containers": [extra]}}},
    }
    answer = api.ask("PATCH", f"{DEPLOYMENTS}/lists?fieldManager=me", body, Content_Type=APPLY)
    assert answer.code == 200, answer.body
    containers = answer.body["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["main", "side"]
    body["spec"] = {}
    answer = api.ask("PATCH", f"{DEPLOYMENTS}/lists?fieldManager=me", body, Content_Type=APPLY)
    containers = answer.body["spec"]["template"]["spec"]["containers"]
    assert [container["name"] for container in containers] == ["main"]
    assert api.ask("PATCH", f"{DEPLOYMENTS}/lists", body, Content_Type=APPLY).code == 422


def test_reviews_say_who_may_what(api: Served) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert api.ask("POST", path, spec).body["status"]["allowed"] is True
    assert api.ask("POST", path, spec, Impersonate_User="bob").body["status"] == {"allowed": False}
    tokens = "/apis/authentication.k8s.io/v1/tokenreviews"
    known = api.ask("POST", tokens, {"spec": {"token": "the-token"}})
    assert known.code == 201
    assert known.body["status"]["authenticated"] is True
    assert "authenticated" not in api.ask("POST", tokens, {"spec": {"token": "x"}}).body["status"]
    who = api.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", {}).body
    assert who["status"]["userInfo"]["username"] == "stowplan-admin"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    refused = api.ask("POST", path, spec, Accept=table)
    assert (refused.code, refused.body["reason"]) == (406, "NotAcceptable")
    assert api.ask("POST", path, spec, Accept=f"{table},application/json").code == 201


def test_a_simulated_pod_has_a_log_of_one_line_and_no_processes(api: Served) -> None:
    nodes = "/api/v1/nodes"
    api.ask("POST", nodes, {"metadata": {"name": "logged"}})
    bare = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}], "nodeName": "logged"}
    api.ask("POST", PODS, {"metadata": {"name": "logs"}, "spec": bare})
    connection = api.connection()
    try:
        connection.request("GET", f"{PODS}/logs/log?container=a", headers=api.headers())
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    assert answer.status == 200
    assert text == "logs/a: this pod is simulated: no container runs, so there is no log\n"
    gone = "is simulated and runs no processes"
    refused = {
        f"{PODS}/logs/log": "a container name must be specified for pod logs, choose one of: [a b]",
        f"{PODS}/logs/log?container=z": "container z is not valid for pod logs",
        f"{PODS}/logs/exec?container=a": f"exec is not possible: pod logs {gone}",
        f"{PODS}/logs/portforward": f"portforward is not possible: pod logs {gone}",
        f"{nodes}/logged/proxy/stats": f"proxy is not possible: node logged {gone}",
    }
    for path, message in refused.items():
        told = api.ask("GET", path)
        assert (told.code, told.body["message"]) == (400, message)
    assert api.ask("GET", f"{PODS}/logs/log?tailLines=-1").code == 422


def test_a_pod_gets_ephemeral_containers_and_other_resources_by_subresources_only(api: Served) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    api.ask("POST", PODS, {"metadata": {"name": "parts"}, "spec": {"containers": [container]}})
    debugger = {"spec": {"ephemeralContainers": [{"name": "dbg", "image": "busybox"}]}}
    main = api.ask("PATCH", f"{PODS}/parts", debugger, Content_Type=STRATEGIC)
    assert "pod updates may not change fields other than" in main.body["message"]
    added = api.ask("PATCH", f"{PODS}/parts/ephemeralcontainers", debugger, Content_Type=STRATEGIC)
    assert (added.code, added.body["metadata"]["generation"]) == (200, 2)
    (kept,) = added.body["spec"]["ephemeralContainers"]
    assert kept["imagePullPolicy"] == "Always"
    other = {"spec": {"ephemeralContainers": [{"name": "dbg", "image": "other"}]}}
    changed = api.ask("PATCH", f"{PODS}/parts/ephemeralcontainers", other, Content_Type=STRATEGIC)
    assert 'existing ephemeral containers "dbg" may not be changed' in changed.body["message"]
    more = {"spec": {"containers": [{"name": "c", "image": "new", "resources": {"requests": {"cpu": "2"}}}]}}
    resized = api.ask("PATCH", f"{PODS}/parts/resize", more, Content_Type=STRATEGIC).body["spec"]
    assert resized["containers"][0]["resources"] == {"requests": {"cpu": "2"}}
    assert resized["containers"][0]["image"] == "i"
    fewer = {"spec": {"containers": [{"name": "c", "resources": {"requests": None}}]}}
    removed = api.ask("PATCH", f"{PODS}/parts/resize", fewer, Content_Type=STRATEGIC)
    assert "resource requests cannot be removed" in removed.body["message"]
    created = {"metadata": {"name": "early"}, "spec": {"containers": [container], **debugger["spec"]}}
    assert api.ask("POST", PODS, created).body["details"]["causes"][0]["message"] == (
        "Forbidden: cannot be set on create"
    )
