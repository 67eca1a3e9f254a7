"""The stage of admission that calls webhooks.

Mutating webhooks are called one after the other, each with the object as the ones before it have left it;
validating webhooks all at once. A service with nobody behind it is skipped, unless the cluster is `strict`:
most webhooks run in pods, and pods are simulated here.
"""

import json
import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec

from stowplan.api import status
from stowplan.api.catalogue import (
    ENDPOINT_SLICES,
    ENDPOINTS,
    MUTATING_WEBHOOK_CONFIGURATIONS,
    SERVICES,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
    Resource,
)
from stowplan.api.requests import Json
from stowplan.gocompat.quoting import quote
from stowplan.localcluster.admission.attributes import AdmissionAttributes
from stowplan.localcluster.admission.expressions import Evaluator, RequestVariables
from stowplan.localcluster.admission.matching import is_exempt
from stowplan.localcluster.admission.refusals import forbidden
from stowplan.localcluster.admission.webhooks.hooks import Webhook, mutating, validating, webhooks_of
from stowplan.localcluster.admission.webhooks.reviews import (
    InvalidAnswerError,
    Review,
    Verdict,
    denial,
    review_of,
    review_version,
    verdict_of,
)
from stowplan.localcluster.apply import plain_json
from stowplan.localcluster.auth.rbac import AccessRules
from stowplan.localcluster.customresources.kept import stored_after
from stowplan.localcluster.customresources.versions import ServedVersion
from stowplan.localcluster.remote.calls import CallError, RemoteServers, Target, is_nested_deeper
from stowplan.localcluster.remote.clientconfig import service_of, target_of, url_of
from stowplan.localcluster.remote.services import UnreachableServiceError
from stowplan.localcluster.schema import TypeMismatchError, decode_body, the_schema
from stowplan.localcluster.store import Store
from stowplan.localcluster.store.attempts import Question
from stowplan.localcluster.store.conversion import in_version
from stowplan.localcluster.store.objects import checked
from stowplan.localcluster.store.patches import apply_json_patch

_log: Final = logging.getLogger(__name__)
_encode: Final = msgspec.json.Encoder(enc_hook=plain_json).encode
_MUTATION: Final = "mutation.webhook.admission.k8s.io/"
_PATCH: Final = "patch.webhook.admission.k8s.io/"
_FAILED_OPEN: Final = "failed-open."
_VALIDATING_FAILED_OPEN: Final = "failed-open.validating.webhook.admission.k8s.io/"
_WITHOUT_EFFECTS: Final = ("None", "NoneOnDryRun")
_LARGEST: Final = 3 * 1024 * 1024
_DEEPEST: Final = 100

CONFIGURATIONS: Final = (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS)


class CallingError(Exception):
    """A webhook that could not be called, or whose answer cannot be used: the failure policy decides."""


class _Invocation(NamedTuple):
    """A webhook that is to be called for a write, and the resource as which its rules matched."""

    hook: Webhook
    matched: Resource


class _Reinvocation:
    """Webhooks that are to be called again because the object has changed after them."""

    def __init__(self) -> None:
        self.invoked: set[str] = set()
        self.again: set[str] = set()
        self.output: Json | None = None

    def require(self) -> None:
        """Call those again that have been called so far."""
        self.again |= self.invoked
        self.invoked = set()


class WebhookStage:
    """Calls the webhooks of a store."""

    def __init__(self, store: Store, remote: RemoteServers) -> None:
        self._store = store
        self._services = remote.services
        self._caller = remote.caller
        self._strict = remote.strict
        self._mutating = mutating(store)
        self._validating = validating(store)
        self._reachable: dict[tuple[str, str, int], bool] = {}
        """Services that were looked for since endpoints last changed, for every write."""
        for resource in (SERVICES, ENDPOINT_SLICES, ENDPOINTS):
            if resource in store.catalogue:
                store.watch(resource, lambda change: self._reachable.clear())
        self._skipped: set[str] = set()
        """Configurations whose webhooks were skipped, by name: each is logged once."""

    @property
    def is_active(self) -> bool:
        return bool(self._mutating.webhooks or self._validating.webhooks)

    @cached_property
    def _access(self) -> AccessRules:
        return AccessRules(self._store)

    def notices(self, resource: Resource, obj: Json) -> list[str]:
        """Warnings for the writer of a configuration: webhooks that cannot be reached."""
        if resource not in CONFIGURATIONS or self._strict:
            return []
        away: dict[str, None] = {}
        for hook in webhooks_of(obj):
            service = service_of(hook.client)
            if service is not None and not self._services.is_reachable(*service):
                namespace, name, port = service
                away[f"{name}.{namespace}:{port}"] = None
        if not away:
            return []
        listed = ", ".join(away)
        return [
            f"webhooks of {obj['metadata']['name']} are skipped: nothing answers at service {listed}; see "
            "`stowplan up --service` and `--webhooks`"
        ]

    # Mutating phase

    def mutate(self, write: AdmissionAttributes) -> bool:
        if write.by.attempts is None or is_exempt(write.resource):
            return False
        state: _Reinvocation = write.kept.setdefault("webhooks", _Reinvocation())
        if write.is_again and write.object != state.output:
            state.require()
        changed = False
        for number, hook in enumerate(self._mutating.webhooks):
            invocation = self._invocation(hook, write)
            if invocation is None or (write.is_again and hook.uid not in state.again):
                continue
            if self._mutated(write, invocation, number):
                state.require()
                changed = True
            if hook.reinvoked:
                state.invoked.add(hook.uid)
        state.output = None if write.object is None else dict(write.object)
        return changed

    def _mutated(self, write: AdmissionAttributes, invocation: _Invocation, number: int) -> bool:
        """Call a mutating webhook; true if it has changed the object."""
        hook, place = invocation.hook, f"round_{int(write.is_again)}_index_{number}"
        try:
            review, target = self._review(write, invocation)
            question = self._question(("mutating", hook.uid, write.is_again), write, hook, review, target)
            [answer] = _attempts(write).answers([question])
            verdict = self._verdict(write, hook, answer, mutating=True)
            changed, patch = self._patched(write, invocation, verdict)
        except CallingError as error:
            self._failed(hook, error)
            write.by.annotate(f"{_FAILED_OPEN}{_MUTATION}{place}", hook.name)
            write.by.annotate(f"{_MUTATION}{place}", _annotation(hook, mutated=False))
            return False
        write.by.annotate(f"{_MUTATION}{place}", _annotation(hook, mutated=changed))
        if patch:
            write.by.annotate(f"{_PATCH}{place}", _annotation(hook, patch=patch, patchType="JSONPatch"))
        return changed

    def _patched(
        self, write: AdmissionAttributes, invocation: _Invocation, verdict: Verdict
    ) -> tuple[bool, Any]:
        """Apply the patch of a webhook to the object; gives back if that has changed it, and the patch."""
        if not verdict.patch:
            return False, None
        try:
            patch = msgspec.json.decode(verdict.patch, type=list[dict[str, Any]])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            text = f"received undecodable patch in webhook response: {error}"
            raise CallingError(text) from None
        hook, matched = invocation
        if not patch:
            return False, None
        before = self._in_version(write, write.object, write.resource, matched, hook.uid)
        if before is None:
            text = (
                f"admission webhook {quote(hook.name)} attempted to modify the object, which is not "
                "supported for this operation"
            )
            raise status.internal_error(text)
        plain = msgspec.json.decode(_encode(before))
        try:
            new = _typed(write, matched, apply_json_patch(plain, patch))
        except (status.ApiError, RecursionError) as error:
            raise status.internal_error(_why(error)) from None
        if new == plain:
            return False, patch
        write.replace(self._from_version(write, plain, new, matched, hook.uid))
        return True, patch

    # Validating phase

    def validate(self, write: AdmissionAttributes) -> None:
        if write.by.attempts is None or is_exempt(write.resource):
            return
        found = [self._invocation(hook, write) for hook in self._validating.webhooks]
        invocations = [one for one in found if one is not None]
        questions: list[Question] = []
        called: list[tuple[int, Webhook]] = []
        for number, invocation in enumerate(invocations):
            hook = invocation.hook
            try:
                review, target = self._review(write, invocation)
            except CallingError as error:
                self._failed(hook, error)
                continue
            questions.append(self._question(("validating", hook.uid), write, hook, review, target))
            called.append((number, hook))
        if not questions:
            return
        refusals: list[status.ApiError] = []
        for (number, hook), answer in zip(called, _attempts(write).answers(questions), strict=True):
            try:
                self._verdict(write, hook, answer, mutating=False)
            except CallingError as error:
                try:
                    self._failed(hook, error)
                except status.ApiError as refusal:
                    refusals.append(refusal)
                else:
                    write.by.annotate(f"{_VALIDATING_FAILED_OPEN}round_0_index_{number}", hook.name)
            except status.ApiError as refusal:
                refusals.append(refusal)
        if refusals:
            raise refusals[0]

    # Both phases

    def _invocation(self, hook: Webhook, write: AdmissionAttributes) -> _Invocation | None:
        """The call of a webhook for a write, None if it does not match. Raises `ApiError`."""
        matched = hook.constraints.match(write)
        if matched is None or self._is_skipped(hook):
            return None
        if hook.conditions is not None:
            values = RequestVariables(write, lambda: self._access).values(matched, None, with_namespace=False)
            result = hook.conditions.match(Evaluator(values))
            if result.error and hook.fails:
                raise forbidden(write.resource, write.name, result.error)
            if not result.matches:
                return None
        return _Invocation(hook, matched)

    def _is_skipped(self, hook: Webhook) -> bool:
        """True for a webhook whose service has nobody behind it, in a cluster that is not strict."""
        service = service_of(hook.client)
        if self._strict or service is None:
            return False
        reachable = self._reachable.get(service)
        if reachable is None:
            reachable = self._reachable[service] = self._services.is_reachable(*service)
        if reachable:
            return False
        if hook.configuration not in self._skipped:
            self._skipped.add(hook.configuration)
            namespace, name, port = service
            _log.warning(
                "webhooks of %s are skipped: nothing answers at service %s.%s:%d; see `up --service`",
                hook.configuration,
                name,
                namespace,
                port,
            )
        return True

    def _review(self, write: AdmissionAttributes, invocation: _Invocation) -> tuple[Review, Target]:
        """The review for a webhook, and where to send it. Raises `CallingError`, or `ApiError` 400."""
        hook = invocation.hook
        if write.by.dry_run and hook.side_effects not in _WITHOUT_EFFECTS:
            raise status.bad_request(f"admission webhook {quote(hook.name)} does not support dry run")
        version = review_version(hook.review_versions)
        if not version:
            known = "webhook does not accept known AdmissionReview versions (v1, v1beta1)"
            raise CallingError(f"could not create admission objects: {known}")
        try:
            target = target_of(hook.client, self._services)
        except UnreachableServiceError as error:
            where = f'Post "{url_of(hook.client)}?timeout={hook.seconds}s"'
            raise CallingError(f"failed to call webhook: {where}: {error}") from None
        matched = invocation.matched
        obj = self._in_version(write, write.object, write.resource, matched, hook.uid)
        old = self._in_version(write, write.old, write.resource, matched, f"old/{hook.uid}")
        return review_of(write, matched, version, obj, old), target

    def _in_version(
        self, write: AdmissionAttributes, obj: Json | None, source: Resource, target: Resource, key: str
    ) -> Json | None:
        """An object of a write in the version in which a webhook has asked for it."""
        if obj is None or target is source or write.kind is not write.resource:
            return obj
        if target.keeps_versions:
            key = f"{int(write.is_mutating)}/{int(write.is_again)}/{key}"
            return self._store.in_version(target, obj, write.by, key, write.stored)
        return in_version(obj, source, target, write.lookup.definitions)

    def _from_version(
        self, write: AdmissionAttributes, before: Json, new: Json, matched: Resource, key: str
    ) -> Json:
        """An object that a webhook has changed, in the version of the write."""
        version = self._store.definitions.version_of(matched) if matched.keeps_versions else None
        if version is not None and matched is not write.resource and not self._is_converted(version):
            # The webhook has seen the common fields alone: the others stay as they are.
            changed = stored_after(write.object or {}, before, new)
            return {**changed, "apiVersion": write.resource.api_version}
        return self._in_version(write, new, matched, write.resource, f"back/{key}") or new

    def _is_converted(self, version: ServedVersion) -> bool:
        return self._store.definitions.is_converted(version)

    def _question(
        self, key: tuple[Any, ...], write: AdmissionAttributes, hook: Webhook, review: Review, target: Target
    ) -> Question:
        async def call(seconds: float) -> tuple[Review, Any]:
            allowed = min(float(hook.seconds), seconds)
            try:
                return review, await self._caller.post(target, review.encoded(), allowed)
            except CallError as error:
                return review, error

        return Question(key, write.stored, call)

    def _verdict(
        self, write: AdmissionAttributes, hook: Webhook, answer: tuple[Review, Any], *, mutating: bool
    ) -> Verdict:
        """The verdict of a webhook that allows the write. Raises `CallingError`, or `ApiError` if not."""
        review, found = answer
        if isinstance(found, CallError):
            raise CallingError(f"failed to call webhook: {found}")
        try:
            verdict = verdict_of(found, review, mutating=mutating)
        except InvalidAnswerError as error:
            raise CallingError(f"received invalid webhook response: {error}") from None
        for key, value in verdict.annotations.items():
            write.by.annotate(f"{hook.name}/{key}", value)
        for warning in verdict.warnings:
            write.by.warn(warning)
        if not verdict.allowed:
            raise denial(hook.name, verdict.result)
        return verdict

    @staticmethod
    def _failed(hook: Webhook, error: CallingError) -> None:
        """Raises `ApiError` 500 unless the failure policy says that the webhook may fail."""
        text = f"failed calling webhook {quote(hook.name)}: {error}"
        if hook.fails:
            _log.info("%s", text)
            raise status.internal_error(text)
        _log.warning("%s (ignored: failurePolicy)", text)


def _attempts(write: AdmissionAttributes) -> Any:
    attempts = write.by.attempts
    assert attempts is not None
    return attempts


def _annotation(hook: Webhook, **more: Any) -> str:
    return json.dumps(
        {"configuration": hook.configuration, "webhook": hook.name, **more}, separators=(",", ":")
    )


def _typed(write: AdmissionAttributes, matched: Resource, new: Any) -> Json:
    """A patched object as one of its kind. Raises `ApiError` if it is none, or too large."""
    kind = matched if write.kind is write.resource else write.kind
    text = _encode(new)
    if len(text) > _LARGEST:
        raise status.bad_request(f"the patched object is longer than {_LARGEST} bytes")
    if is_nested_deeper(new, _DEEPEST):
        raise status.bad_request(f"the patched object is nested more than {_DEEPEST} levels deep")
    type_ = None if kind.custom else the_schema().of_kind(kind.group, kind.version, kind.kind)
    if type_ is not None:
        try:
            new = decode_body(type_, text)[0]
        except TypeMismatchError as error:
            raise status.bad_request(str(error)) from None
    if not isinstance(new, dict) or not isinstance(new.get("metadata", {}), dict):
        raise status.bad_request("the patched object is not an object with metadata")
    return checked(kind, new)


def _why(error: Exception) -> str:
    """The reason of an error, with the cause that a Status hides."""
    if isinstance(error, status.ApiError):
        causes: Sequence[Json] = error.details.get("causes") or ()
        return str(causes[0].get("message") or error.message) if causes else error.message
    return "nested too deeply"
