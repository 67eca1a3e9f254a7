"""CustomResourceDefinitions and their objects, over HTTP."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from localcluster.apiserver.served import APPLY, JSON_PATCH, MERGE, STRATEGIC, Served
from localcluster.customresources.definitions import DEFINITIONS, custom, definition, objects, version
from stowplan.api.catalogue import CUSTOM_RESOURCE_DEFINITIONS, Resource
from stowplan.api.requests import Json, PatchType
from stowplan.localcluster.admission import ClusterAdmission, create_bootstrap_objects
from stowplan.localcluster.durable import open_data_dir
from stowplan.localcluster.store import Store
from stowplan.runtime.clock import RealClock
from waiting import within_cpu

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SIZED = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 9},
        "color": {"type": "string", "default": "red", "enum": ["red", "blue"]},
        "replicas": {"type": "integer"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "port": {"x-kubernetes-int-or-string": True},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "count": {"type": "integer", "default": 1}},
            },
        },
    },
}


def define(api: Served, plural: str, **spec: Any) -> Json:
    answer = api.ask("POST", DEFINITIONS, definition(plural, **spec))
    assert answer.code == 201, answer.body
    body: Json = answer.body
    return body


def condition(api: Served, name: str, type_: str) -> Json:
    body = api.ask("GET", f"{DEFINITIONS}/{name}").body
    found: Json = next(one for one in body["status"]["conditions"] if one["type"] == type_)
    return found


def test_a_definition_is_established_and_served_with_the_next_request(api: Served) -> None:
    created = define(api, "gears", versions=[version(schema=SIZED)])
    assert created["status"]["storedVersions"] == ["v1"]
    assert created["spec"]["names"] == {
        "plural": "gears",
        "kind": "Gear",
        "singular": "gear",
        "listKind": "GearList",
    }
    assert condition(api, "gears.example.com", "Established")["status"] == "True"
    assert condition(api, "gears.example.com", "NamesAccepted")["reason"] == "NoConflicts"
    listed = api.ask("GET", objects("gears"))
    assert (listed.code, listed.body["kind"], listed.body["items"]) == (200, "GearList", [])
    assert [one["name"] for one in api.ask("GET", "/apis/example.com/v1").body["resources"]].count(
        "gears"
    ) == 1
    assert "apis/example.com/v1" in api.ask("GET", "/openapi/v3").body["paths"]


def test_objects_are_pruned_defaulted_and_validated(api: Served) -> None:
    define(api, "cogs", versions=[version(schema=SIZED)])
    where = objects("cogs")
    made = api.ask("POST", where, custom("Cog", "a", spec={"size": 3, "junk": 1, "free": {"x": [None]}}))
    assert made.code == 201
    assert made.body["spec"] == {"size": 3, "color": "red", "free": {"x": [None]}}
    assert made.headers["Warning"] == '299 - "unknown field \\"spec.junk\\""'
    strict = api.ask(
        "POST", f"{where}?fieldValidation=Strict", custom("Cog", "b", spec={"size": 3, "junk": 1})
    )
    assert (strict.code, "unknown field" in strict.body["message"]) == (400, True)
    quiet = api.ask(
        "POST", f"{where}?fieldValidation=Ignore", custom("Cog", "c", spec={"size": 3, "junk": 1})
    )
    assert (quiet.code, quiet.headers["Warning"]) == (201, None)
    wrong = api.ask(
        "POST", where, custom("Cog", "d", spec={"size": 0, "parts": [{"name": "x"}, {"name": "x"}]})
    )
    assert wrong.code == 422
    assert [one["message"] for one in wrong.body["details"]["causes"]] == [
        "Invalid value: 0: spec.size in body should be greater than or equal to 1",
        'Duplicate value: {"name":"x"}',
    ]
    other = api.ask("POST", where, custom("Wheel", "e", spec={"size": 1}))
    assert (other.code, other.body["details"]["kind"]) == (422, "Wheel")


def test_patches_and_generations(api: Served) -> None:
    define(api, "bolts", versions=[version(schema=SIZED, subresources={"status": {}})])
    where = objects("bolts")
    api.ask("POST", where, custom("Bolt", "a", spec={"size": 1}, status={"phase": "no"}))
    one = f"{where}/a"
    assert "status" not in api.ask("GET", one).body
    merged = api.ask("PATCH", one, {"spec": {"size": 2}, "status": {"x": 1}}, Content_Type=MERGE).body
    assert (merged["spec"]["size"], merged["metadata"]["generation"], "status" in merged) == (2, 2, False)
    labelled = api.ask("PATCH", one, {"metadata": {"labels": {"a": "b"}}}, Content_Type=MERGE).body
    assert labelled["metadata"]["generation"] == 2
    operations = [{"op": "replace", "path": "/spec/size", "value": 3}]
    assert api.ask("PATCH", one, operations, Content_Type=JSON_PATCH).body["spec"]["size"] == 3
    refused = api.ask("PATCH", one, {"spec": {"size": 4}}, Content_Type=STRATEGIC)
    assert (refused.code, "strategic" in refused.body["message"]) == (415, False)
    bad = api.ask("PATCH", one, {"spec": {"size": "four"}}, Content_Type=MERGE)
    assert bad.code == 422
    assert bad.body["details"]["causes"][0]["reason"] == "FieldValueTypeInvalid"
    unversioned = api.ask("PUT", one, custom("Bolt", "a", spec={"size": 4}))
    assert unversioned.code == 422
    assert "metadata.resourceVersion" in unversioned.body["message"]


def test_a_part_that_was_invalid_before_may_stay_so(api: Served) -> None:
    define(
        api, "nuts", versions=[version(schema={"type": "object", "properties": {"n": {"type": "integer"}}})]
    )
    api.ask("POST", objects("nuts"), custom("Nut", "a", spec={"n": 50}))
    limited = {
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 10}, "m": {"type": "string"}},
    }
    path = f"{DEFINITIONS}/nuts.example.com"
    assert (
        api.ask("PATCH", path, {"spec": {"versions": [version(schema=limited)]}}, Content_Type=MERGE).code
        == 200
    )
    one = f"{objects('nuts')}/a"
    assert api.ask("PATCH", one, {"spec": {"m": "x"}}, Content_Type=MERGE).code == 200
    assert api.ask("PATCH", one, {"spec": {"n": 60}}, Content_Type=MERGE).code == 422
    assert api.ask("POST", objects("nuts"), custom("Nut", "b", spec={"n": 50})).code == 422


def test_several_versions_are_one_object(api: Served) -> None:
    both = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}}
    only_a = {"type": "object", "properties": {"a": {"type": "integer"}}}
    old = version("v1beta1", only_a, storage=False, deprecated=True)
    unserved = version("v1alpha1", only_a, storage=False, served=False)
    define(api, "pins", versions=[version(schema=both), old, unserved])
    made = api.ask("POST", objects("pins"), custom("Pin", "a", spec={"a": 1, "b": 2}))
    uid = made.body["metadata"]["uid"]
    older = api.ask("GET", f"{objects('pins', version='v1beta1')}/a")
    assert older.body["apiVersion"] == "example.com/v1beta1"
    assert (older.body["spec"], older.body["metadata"]["uid"]) == ({"a": 1}, uid)
    assert older.headers["Warning"] == (
        '299 - "example.com/v1beta1 Pin is deprecated; use example.com/v1 Pin"'
    )
    assert api.ask("GET", f"{objects('pins', version='v1alpha1')}/a").code == 404
    older = api.ask(
        "POST", objects("pins", version="v1beta1"), custom("Pin", "b", "example.com/v1beta1", spec={"a": 5})
    )
    assert (older.code, older.body["apiVersion"]) == (201, "example.com/v1beta1")
    newer = api.ask("GET", f"{objects('pins')}/b").body
    assert (newer["apiVersion"], newer["spec"]) == ("example.com/v1", {"a": 5})
    served = api.ask("GET", "/apis/example.com").body
    assert [one["version"] for one in served["versions"]] == ["v1", "v1beta1"]


def test_the_storage_version_may_change(api: Served) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    define(api, "caps", versions=[version("v1beta1", schema)])
    api.ask(
        "POST", objects("caps", version="v1beta1"), custom("Cap", "a", "example.com/v1beta1", spec={"a": 1})
    )
    path = f"{DEFINITIONS}/caps.example.com"
    both = [version("v1", schema), version("v1beta1", schema, storage=False)]
    changed = api.ask("PATCH", path, {"spec": {"versions": both}}, Content_Type=MERGE)
    assert changed.body["status"]["storedVersions"] == ["v1beta1", "v1"]
    assert api.ask("GET", f"{objects('caps')}/a").body["apiVersion"] == "example.com/v1"
    removed = api.ask("PATCH", path, {"spec": {"versions": both[:1]}}, Content_Type=MERGE)
    assert removed.code == 422
    assert "missing from spec.versions" in removed.body["message"]
    stored = {"status": {"storedVersions": ["v1"]}}
    assert api.ask("PATCH", f"{path}/status", stored, Content_Type=MERGE).code == 200
    assert api.ask("PATCH", path, {"spec": {"versions": both[:1]}}, Content_Type=MERGE).code == 200
    assert api.ask("GET", f"{objects('caps')}/a").body["spec"] == {"a": 1}
    assert api.ask("GET", f"{objects('caps', version='v1beta1')}/a").code == 404
    update = api.ask("PATCH", f"{objects('caps')}/a", {"spec": {"a": 2}}, Content_Type=MERGE).body
    assert (update["apiVersion"], update["metadata"]["generation"]) == ("example.com/v1", 2)


def test_a_new_default_is_seen_in_old_objects(api: Served) -> None:
    define(
        api, "lids", versions=[version(schema={"type": "object", "properties": {"a": {"type": "string"}}})]
    )
    api.ask("POST", objects("lids"), custom("Lid", "a", spec={"a": "x"}))
    more = {"type": "object", "properties": {"b": {"type": "string", "default": "y"}}}
    path = f"{DEFINITIONS}/lids.example.com"
    api.ask("PATCH", path, {"spec": {"versions": [version(schema=more)]}}, Content_Type=MERGE)
    assert api.ask("GET", f"{objects('lids')}/a").body["spec"] == {"b": "y"}


def test_columns_selectors_and_scale(api: Served) -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Parts", "type": "string", "jsonPath": ".spec.parts"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        {"name": "Bad", "type": "date", "jsonPath": ".spec.color"},
    ]
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    define(
        api,
        "rings",
        versions=[
            version(
                schema=SIZED,
                subresources={"status": {}, "scale": scale},
                additionalPrinterColumns=columns,
                selectableFields=[{"jsonPath": ".spec.color"}],
            )
        ],
    )
    where = objects("rings")
    api.ask("POST", where, custom("Ring", "a", spec={"size": 2, "parts": [{"name": "x"}]}))
    api.ask("POST", where, custom("Ring", "b", spec={"size": 3, "color": "blue", "replicas": 1}))
    table = api.ask("GET", where, Accept=TABLE).body
    assert [(one["name"], one["priority"]) for one in table["columnDefinitions"]][2] == ("Color", 1)
    cells = [row["cells"] for row in table["rows"]]
    assert cells[0] == ["a", 2, "red", None, '[{"count":1,"name":"x"}]', cells[0][5], "<invalid>"]
    blue = api.ask("GET", f"{where}?fieldSelector=spec.color%3Dblue").body["items"]
    assert [one["metadata"]["name"] for one in blue] == ["b"]
    assert api.ask("GET", f"{where}?fieldSelector=spec.size%3D3").code == 400
    assert api.ask("GET", f"{where}/a/scale").code == 500
    scaled = api.ask("PATCH", f"{where}/b/scale", {"spec": {"replicas": 4}}, Content_Type=MERGE)
    assert (scaled.code, scaled.body["kind"], scaled.body["spec"]) == (200, "Scale", {"replicas": 4})
    assert api.ask("GET", f"{where}/b").body["spec"]["replicas"] == 4
    assert api.ask("GET", f"{where}/b/other").code == 404


def test_server_side_apply_goes_by_the_list_types_of_the_schema(api: Served) -> None:
    define(api, "arms", versions=[version(schema=SIZED)])
    one = f"{objects('arms')}/a"
    mine = custom("Arm", "a", spec={"size": 1, "parts": [{"name": "p"}]})
    assert api.ask("PATCH", f"{one}?fieldManager=alice", mine, Content_Type=APPLY).code == 201
    theirs = custom("Arm", "a", spec={"parts": [{"name": "q", "count": 2}]})
    both = api.ask("PATCH", f"{one}?fieldManager=bob", theirs, Content_Type=APPLY)
    assert both.code == 200
    assert [part["name"] for part in both.body["spec"]["parts"]] == ["p", "q"]
    conflict = custom("Arm", "a", spec={"size": 2})
    assert api.ask("PATCH", f"{one}?fieldManager=bob", conflict, Content_Type=APPLY).code == 409
    gone = api.ask(
        "PATCH", f"{one}?fieldManager=alice", custom("Arm", "a", spec={"size": 1}), Content_Type=APPLY
    )
    assert [part["name"] for part in gone.body["spec"]["parts"]] == ["q"]


def test_names_that_are_taken_are_not_accepted_until_they_are_free(api: Served) -> None:
    define(api, "dogs", group="names.io", names={"plural": "dogs", "kind": "Dog", "shortNames": ["d"]})
    define(api, "cats", group="names.io", names={"plural": "cats", "kind": "Dog", "shortNames": ["d"]})
    taken = condition(api, "cats.names.io", "NamesAccepted")
    assert (taken["status"], taken["reason"]) == ("False", "ListKindConflict")
    assert condition(api, "cats.names.io", "Established")["status"] == "False"
    assert api.ask("GET", objects("cats", "names.io")).code == 404
    assert api.ask("DELETE", f"{DEFINITIONS}/dogs.names.io").code == 200
    assert condition(api, "cats.names.io", "Established")["status"] == "True"
    assert api.ask("GET", objects("cats", "names.io")).code == 200


def test_a_definition_goes_after_its_objects(api: Served) -> None:
    define(api, "leaves", kind="Leaf")
    held = custom("Leaf", "held")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.ask("POST", objects("leaves"), held)
    api.ask("POST", objects("leaves"), custom("Leaf", "free"))
    deleted = api.ask("DELETE", f"{DEFINITIONS}/leaves.example.com").body
    assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    left = api.ask("GET", objects("leaves")).body["items"]
    assert [one["metadata"]["name"] for one in left] == ["held"]
    assert condition(api, "leaves.example.com", "Terminating")["reason"] == "InstanceDeletionInProgress"
    assert api.ask("POST", objects("leaves"), custom("Leaf", "new")).code == 403
    freed = {"metadata": {"finalizers": None}}
    assert api.ask("PATCH", f"{objects('leaves')}/held", freed, Content_Type=MERGE).code == 200
    assert api.ask("GET", f"{DEFINITIONS}/leaves.example.com").code == 404
    assert api.ask("GET", objects("leaves")).code == 404


def test_a_watch_ends_with_its_definition(api: Served) -> None:
    define(api, "waves")
    watch = api.watch(f"{objects('waves')}?watch=true&timeoutSeconds=20")
    api.ask("POST", objects("waves"), custom("Wave", "a"))
    assert next(watch)["type"] == "ADDED"
    api.ask("DELETE", f"{DEFINITIONS}/waves.example.com")
    assert [event["type"] for event in watch] == ["DELETED"]


def test_cluster_scope(api: Served) -> None:
    define(api, "zones", scope="Cluster")
    made = api.ask("POST", objects("zones", namespace=""), custom("Zone", "a"))
    assert (made.code, "namespace" in made.body["metadata"]) == (201, False)
    assert api.ask("GET", objects("zones")).code == 404


RULED: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "x-kubernetes-validations": [
                {
                    "rule": "self.least <= self.most",
                    "messageExpression": "'least is above %d'.format([self.most])",
                },
                {
                    "rule": "self.name == oldSelf.name",
                    "message": "name is for ever",
                    "reason": "FieldValueForbidden",
                },
            ],
            "properties": {
                "least": {"type": "integer"},
                "most": {"type": "integer", "x-kubernetes-validations": [{"rule": "self < 100"}]},
                "name": {"type": "string"},
                "wait": {
                    "type": "string",
                    "format": "duration",
                    "x-kubernetes-validations": [{"rule": "self >= duration('1s')", "message": "too short"}],
                },
                "ports": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "x-y": {"type": "integer"},
                            "in": {"x-kubernetes-int-or-string": True},
                        },
                        "x-kubernetes-validations": [
                            {"rule": "has(self.x__dash__y) != has(self.__in__)"},
                        ],
                    },
                },
            },
        }
    },
}


def test_rules_are_evaluated_when_objects_are_written(api: Served) -> None:
    define(api, "edicts", versions=[version(schema=RULED["properties"]["spec"])])
    where = objects("edicts")
    good = {"least": 1, "most": 2, "name": "a", "wait": "2s", "ports": [{"x-y": 1}, {"in": "a"}]}
    assert api.ask("POST", where, custom("Edict", "good", spec=good)).code == 201
    for change, causes in {
        '{"most": 0}': {"spec": "Invalid value: least is above 0"},
        '{"most": 100}': {"spec.most": "Invalid value: 100: failed rule: self < 100"},
        '{"wait": "5ms"}': {"spec.wait": 'Invalid value: "5ms": too short'},
        '{"ports": [{}]}': {
            "spec.ports[0]": "Invalid value: failed rule: has(self.x__dash__y) != has(self.__in__)"
        },
    }.items():
        answer = api.ask("POST", where, custom("Edict", "bad", spec={**good, **json.loads(change)}))
        assert answer.code == 422
        told = {cause["field"]: cause["message"] for cause in answer.body["details"]["causes"]}
        assert told == causes
    missing = api.ask("POST", where, custom("Edict", "bad", spec={"least": 1}))
    assert "no such key: most evaluating rule: self.least <= self.most" in missing.body["message"]


def test_a_rule_with_the_old_value_is_for_updates_and_what_stays_is_not_held_against_it(api: Served) -> None:
    define(api, "oaths", versions=[version(schema=RULED["properties"]["spec"])])
    where = objects("oaths")
    made = api.ask("POST", where, custom("Oath", "a", spec={"least": 1, "most": 2, "name": "a"})).body
    renamed = api.ask("PUT", f"{where}/a", {**made, "spec": {"least": 1, "most": 2, "name": "b"}})
    assert renamed.code == 422
    assert renamed.body["details"]["causes"][0]["message"] == "Forbidden: name is for ever"
    kept = api.ask("PUT", f"{where}/a", {**made, "spec": {"least": 2, "most": 2, "name": "a"}})
    assert kept.code == 200


def test_rules_and_webhooks_that_have_no_effect_are_warned_of(api: Served) -> None:
    ruled = {"type": "object", "x-kubernetes-validations": [{"rule": "self.size > 1"}]}
    answer = api.ask("POST", DEFINITIONS, definition("laws", versions=[version(schema=ruled)]))
    assert answer.code == 201
    assert "not evaluated here: self.size > 1" in answer.headers["Warning"]
    assert "undefined field 'size'" in answer.headers["Warning"]
    webhook = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "s", "namespace": "default"}},
        },
    }
    answer = api.ask("POST", DEFINITIONS, definition("acts", conversion=webhook))
    assert answer.code == 201
    assert "webhook" in answer.headers["Warning"]
    assert answer.body["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443
    odd = {"type": "object", "properties": {"a": {"type": "string", "format": "semver"}}}
    answer = api.ask("POST", DEFINITIONS, definition("rules", versions=[version(schema=odd)]))
    assert answer.headers["Warning"] == '299 - "unrecognized format \\"semver\\""'


def test_openapi_describes_custom_kinds_and_follows_changes(api: Served) -> None:
    define(api, "docs", group="docs.io", versions=[version(schema=SIZED)])
    schemas = api.ask("GET", "/openapi/v3/apis/docs.io/v1").body["components"]["schemas"]
    shown = schemas["io.docs.v1.Doc"]
    assert shown["properties"]["spec"]["properties"]["color"]["default"] == "red"
    assert shown["x-kubernetes-group-version-kind"] == [{"group": "docs.io", "kind": "Doc", "version": "v1"}]
    assert "io.docs.v1.Doc" in api.ask("GET", "/openapi/v2").body["definitions"]
    api.ask("DELETE", f"{DEFINITIONS}/docs.docs.io")
    assert api.ask("GET", "/openapi/v3/apis/docs.io/v1").code == 404
    assert "io.docs.v1.Doc" not in api.ask("GET", "/openapi/v2").body["definitions"]


def test_a_group_like_a_built_in_one_has_types_of_its_own(api: Served) -> None:
    define(api, "deployments", group="apps.example.com", kind="Deployment", versions=[version(schema=SIZED)])
    made = api.ask(
        "POST",
        objects("deployments", "apps.example.com"),
        custom("Deployment", "a", "apps.example.com/v1", spec={"size": 1}),
    )
    assert made.code == 201
    assert made.body["spec"] == {"size": 1, "color": "red"}


def _open(folder: Path) -> tuple[Store, Any]:
    store = Store(RealClock(), random.Random(1), admission=ClusterAdmission())
    log = open_data_dir(store, folder)
    create_bootstrap_objects(store)
    return store, log


def test_definitions_and_objects_survive_a_restart(tmp_path: Path) -> None:
    store, log = _open(tmp_path / "data")
    schema = {"type": "object", "properties": {"a": {"type": "integer", "default": 7}}}
    store.create(CUSTOM_RESOURCE_DEFINITIONS, definition("seeds", versions=[version("v1beta1", schema)]))
    seeds = store.catalogue.named("seeds.v1beta1.example.com")
    assert seeds is not None
    store.create(seeds, custom("Seed", "a", "example.com/v1beta1", spec={}), "default")
    changed = store.get(CUSTOM_RESOURCE_DEFINITIONS, "", "seeds.example.com")
    newer = [version("v1", schema), version("v1beta1", schema, storage=False, served=False)]
    store.update(CUSTOM_RESOURCE_DEFINITIONS, {**changed, "spec": {**changed["spec"], "versions": newer}})
    log.close()

    store, log = _open(tmp_path / "data")
    assert store.catalogue.named("seeds.v1beta1.example.com") is None
    again = store.catalogue.named("seeds.v1.example.com")
    assert again is not None
    assert [one["spec"] for one in store.all(again)] == [{"a": 7}]
    store.create(again, custom("Seed", "b", spec={"a": 1}), "default")
    store.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "seeds.example.com")
    log.close()

    store, log = _open(tmp_path / "data")
    assert store.catalogue.named("seeds.v1.example.com") is None
    assert store.all(CUSTOM_RESOURCE_DEFINITIONS) == []
    log.close()


def test_a_definition_that_is_being_deleted_goes_on_with_that_after_a_restart(tmp_path: Path) -> None:
    store, log = _open(tmp_path / "data")
    store.create(CUSTOM_RESOURCE_DEFINITIONS, definition("weeds"))
    weeds = store.catalogue.named("weeds.v1.example.com")
    assert weeds is not None
    held = custom("Weed", "a")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    store.create(weeds, held, "default")
    store.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "weeds.example.com")
    log.close()

    store, log = _open(tmp_path / "data")
    weeds = store.catalogue.named("weeds.v1.example.com")
    assert weeds is not None
    store.patch(weeds, "default", "a", {"metadata": {"finalizers": None}}, PatchType.MERGE)
    assert store.all(CUSTOM_RESOURCE_DEFINITIONS) == []
    assert store.catalogue.named("weeds.v1.example.com") is None
    log.close()
    store, log = _open(tmp_path / "data")
    assert store.all(CUSTOM_RESOURCE_DEFINITIONS) == []
    log.close()


def test_resources_that_plugins_register_need_no_definition() -> None:
    store = Store(RealClock(), random.Random(1), admission=ClusterAdmission())
    create_bootstrap_objects(store)
    tickets = store.catalogue.register(Resource("example.com", "v1", "tickets", "Ticket", custom=True))
    made = store.create(tickets, custom("Ticket", "a", spec={"anything": 1}), "default")
    assert made["spec"] == {"anything": 1}


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (
            {"scope": "Galaxy"},
            "spec.scope",
            'Unsupported value: "Galaxy": supported values: "Cluster", "Namespaced"',
        ),
        ({"names": {"plural": "others", "kind": "Bad"}}, "metadata.name", "must be spec.names.plural"),
        ({"group": "example"}, "spec.group", "should be a domain with at least one dot"),
        ({"versions": []}, "spec.versions", "must have exactly one version marked as storage version"),
        ({"versions": [version(), version()]}, "spec.versions", "must contain unique version names"),
        ({"versions": [version("1")]}, "spec.versions[0].name", "a DNS-1035 label must consist of"),
        (
            {"names": {"plural": "bads", "kind": "Bad", "listKind": "Bad"}},
            "spec.names.listKind",
            "may not be the same",
        ),
        (
            {"names": {"plural": "bads", "kind": "Bad", "shortNames": ["A"]}},
            "spec.names.shortNames[0]",
            "DNS-1035",
        ),
        ({"conversion": {"strategy": "Magic"}}, "spec.conversion.strategy", 'Unsupported value: "Magic"'),
        ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.webhookClientConfig", "Required value"),
        ({"preserveUnknownFields": True}, "spec.preserveUnknownFields", "cannot set to true"),
        (
            {"versions": [version(schema={"type": "thing"})]},
            "properties[spec].type",
            'Unsupported value: "thing"',
        ),
        (
            {"versions": [version(additionalPrinterColumns=[{"name": "a", "type": "x", "jsonPath": ".a"}])]},
            "spec.additionalPrinterColumns[0].type",
            "must be one of boolean,date,integer,number,string",
        ),
        (
            {"versions": [version(selectableFields=[{"jsonPath": ".spec.nothing"}])]},
            "spec.selectableFields[0].jsonPath",
            "is an invalid path",
        ),
        (
            {"versions": [version(deprecationWarning="old")]},
            "deprecationWarning",
            "can only be set for deprecated",
        ),
        (
            {
                "versions": [
                    version(
                        subresources={"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".status.r"}}
                    )
                ]
            },
            "spec.subresources.scale.specReplicasPath",
            "should be a json path under .spec",
        ),
    ],
)
def test_definitions_are_validated(api: Served, change: Json, path: str, message: str) -> None:
    answer = api.ask("POST", DEFINITIONS, definition("bads", **change))
    assert answer.code == 422, answer.body
    causes = answer.body["details"]["causes"]
    assert any(path in one["field"] and message in one["message"] for one in causes), causes


def test_what_must_not_change_in_a_definition(api: Served) -> None:
    define(api, "stones")
    path = f"{DEFINITIONS}/stones.example.com"
    for change, field in (
        ({"scope": "Cluster"}, "spec.scope"),
        ({"names": {"kind": "Rock"}}, "spec.names.kind"),
        ({"names": {"plural": "rocks"}}, "spec.names.plural"),
        ({"group": "other.com"}, "spec.group"),
    ):
        answer = api.ask("PATCH", path, {"spec": change}, Content_Type=MERGE)
        assert answer.code == 422
        assert field in [one["field"] for one in answer.body["details"]["causes"]]
    protected = definition("gates", "policy.k8s.io")
    answer = api.ask("POST", DEFINITIONS, protected)
    assert answer.code == 422
    assert "api-approved.kubernetes.io" in answer.body["message"]
    protected["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, a test"}
    assert api.ask("POST", DEFINITIONS, protected).code == 201


def test_discovery_shows_custom_kinds_in_both_forms(api: Served) -> None:
    names = {"plural": "tiles", "kind": "Tile", "shortNames": ["tl"], "categories": ["all"]}
    define(api, "tiles", group="tiles.io", names=names, versions=[version(subresources={"status": {}})])
    legacy = api.ask("GET", "/apis/tiles.io/v1").body["resources"]
    assert [one["name"] for one in legacy] == ["tiles", "tiles/status"]
    assert (legacy[0]["shortNames"], legacy[0]["categories"], legacy[0]["singularName"]) == (
        ["tl"],
        ["all"],
        "tile",
    )
    wanted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = api.ask("GET", "/apis", Accept=wanted).body["items"]
    (group,) = [one for one in groups if one["metadata"]["name"] == "tiles.io"]
    (resource,) = group["versions"][0]["resources"]
    kind = {"group": "tiles.io", "version": "v1", "kind": "Tile"}
    assert (resource["responseKind"], resource["subresources"][0]["responseKind"]) == (kind, kind)
    api.ask("DELETE", f"{DEFINITIONS}/tiles.tiles.io")
    assert api.ask("GET", "/apis/tiles.io").code == 404


def test_metadata_is_pruned_and_odd_finalizers_warned_of(api: Served) -> None:
    pod = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    define(
        api,
        "boxes",
        names={"plural": "boxes", "kind": "Box"},
        versions=[version(schema={"type": "object", "properties": {"pod": pod}})],
    )
    inner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "odd": 1, "uid": None},
        "spec": {"a": 1},
    }
    body = custom("Box", "a", spec={"pod": inner})
    body["metadata"] |= {"odd": 1, "finalizers": ["mine"]}
    made = api.ask("POST", objects("boxes"), body)
    assert made.code == 201
    assert "odd" not in made.body["metadata"]
    assert made.body["spec"]["pod"] == {**inner, "metadata": {"name": "x"}}
    warnings = made.headers.get_all("Warning")
    assert [text for text in warnings if "unknown field" in text] == [
        '299 - "unknown field \\"metadata.odd\\""',
        '299 - "unknown field \\"spec.pod.metadata.odd\\""',
    ]
    assert any("prefer a domain-qualified finalizer name" in text for text in warnings)
    nameless = {"metadata": {"name": "b"}}
    assert "Object 'Kind' is missing" in api.ask("POST", objects("boxes"), nameless).body["message"]


def test_empty_labels_and_annotations_are_left_out_as_in_built_in_kinds(api: Served) -> None:
    pod = {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    }
    schema = {"type": "object", "properties": {"pod": pod, "annotations": {"type": "object"}}}
    define(api, "hulls", versions=[version(schema=schema)])
    empty: Json = {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": []}
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", **empty}}
    body = custom("Hull", "a", spec={"pod": inner, "annotations": {}})
    body["metadata"] |= empty
    made = api.ask("POST", objects("hulls"), body).body
    assert empty.keys().isdisjoint(made["metadata"])
    assert made["spec"] == {"pod": {**inner, "metadata": {"name": "x"}}, "annotations": {}}
    patch = {"metadata": {"labels": {"a": None}}}
    changed = api.ask("PATCH", f"{objects('hulls')}/a", patch, Content_Type=MERGE).body
    assert "labels" not in changed["metadata"]


def test_fields_at_any_depth_can_be_selected_by(api: Served) -> None:
    inner = {"type": "object", "properties": {"b": {"type": "boolean"}, "n": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"a": inner}}
    fields = [{"jsonPath": ".spec.a.b"}, {"jsonPath": ".spec.a.n"}]
    define(api, "veins", versions=[version(schema=schema, selectableFields=fields)])
    for name, spec in (("x", {"a": {"b": True, "n": 1}}), ("y", {"a": {"n": 2}}), ("z", {})):
        api.ask("POST", objects("veins"), custom("Vein", name, spec=spec))
    for selector, expected in (("spec.a.b=true", ["x"]), ("spec.a.n=2", ["y"]), ("spec.a.n!=2", ["x", "z"])):
        where = f"{objects('veins')}?fieldSelector={selector.replace('=', '%3D')}"
        assert [one["metadata"]["name"] for one in api.ask("GET", where).body["items"]] == expected


def large(depth: int, width: int) -> Json:
    """A schema as large as those of operators that embed pod templates."""
    quantity = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "x-kubernetes-int-or-string": True,
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE])?$",
    }
    leaf: Json = {"type": "object", "additionalProperties": quantity, "description": "Amounts. " * 10}
    if depth == 0:
        return leaf
    ports = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "items": {
            "type": "object",
            "required": ["port"],
            "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
        },
    }
    inner = {f"f{number}": large(depth - 1, width) for number in range(width)}
    return {"type": "object", "properties": {"ports": ports, **inner}}


def test_large_definitions_are_accepted_soon(api: Served) -> None:
    body = definition("giants", versions=[version(schema=large(4, 8))])
    with within_cpu(30):
        assert api.ask("POST", DEFINITIONS, body).code == 201
        spec = {
            "ports": [{"port": 1}, {"port": 1, "protocol": "UDP"}],
            "f0": {"f1": {"f2": {"f3": {"cpu": "100m"}}}},
        }
        made = api.ask("POST", objects("giants"), custom("Giant", "g", spec=spec))
        assert made.code == 201
        assert made.body["spec"]["ports"][0] == {"port": 1, "protocol": "TCP"}
        wrong = {"f0": {"f1": {"f2": {"f3": {"cpu": "lots"}}}}}
        refused = api.ask("POST", objects("giants"), custom("Giant", "h", spec=wrong))
        assert refused.body["details"]["causes"][0]["field"] == "spec.f0.f1.f2.f3.cpu"
        assert api.ask("GET", "/openapi/v3/apis/example.com/v1").code == 200
