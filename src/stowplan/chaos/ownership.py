"""Who owns which volume: looked at with every write, whoever makes it."""

from stowplan.api.catalogue import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from stowplan.api.requests import Json
from stowplan.chaos.world import World
from stowplan.embedded.store import DELETED, Change

ONE_CLAIM = "no volume goes to two claims"
ONE_VOLUME = "no claim has two volumes"


class Ownership:
    """Watches volumes and claims in the store.

    A volume that names a claim names no other before it was let go; a claim that has a volume keeps it; and
    no two claims have the same.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        world.store.watch(PERSISTENT_VOLUMES, self._volume_changed)
        world.store.watch(PERSISTENT_VOLUME_CLAIMS, self._claim_changed)

    def check_at_rest(self) -> None:
        """When nothing is under way, what volumes and what claims say is the same."""
        claims = {claim["metadata"]["uid"]: claim for claim in self._claims()}
        owned: dict[str, list[str]] = {}
        for volume in self._world.store.list(PERSISTENT_VOLUMES).items:
            uid, name = _claimed_by(volume), volume["metadata"]["name"]
            if uid in claims:
                owned.setdefault(uid, []).append(name)
        for uid, names in owned.items():
            key, has = claims[uid]["metadata"]["name"], _volume_of(claims[uid])
            if len(names) > 1:
                self._world.broken(ONE_VOLUME, f"{key} is named by {names}")
            if has and has not in names:
                self._world.broken(ONE_VOLUME, f"{key} has {has} and is named by {names}")

    def _volume_changed(self, change: Change) -> None:
        if change.type == DELETED:
            return
        volume, before = change.object, change.previous
        name, uid = volume["metadata"]["name"], _claimed_by(volume)
        held = _claimed_by(before) if before is not None else ""
        if held and uid and held != uid:
            self._world.broken(ONE_CLAIM, f"{name} is taken from claim {held} for {uid}")
        if uid and uid != held:
            self._world.counts["volumes claimed"] += 1
            for claim in self._claims():
                if _volume_of(claim) == name and claim["metadata"]["uid"] != uid:
                    self._world.broken(ONE_CLAIM, f"{name} of {claim['metadata']['name']} goes to {uid}")

    def _claim_changed(self, change: Change) -> None:
        if change.type == DELETED:
            return
        claim, before = change.object, change.previous
        name, has = claim["metadata"]["name"], _volume_of(claim)
        had = _volume_of(before) if before is not None else ""
        if had and had != has:
            self._world.broken(ONE_VOLUME, f"{name} has {has or 'no volume'} in the place of {had}")
        if has and not had:
            others = [one["metadata"]["name"] for one in self._claims() if _volume_of(one) == has]
            if len(others) > 1:
                self._world.broken(ONE_CLAIM, f"{has} is the volume of {sorted(others)}")

    def _claims(self) -> list[Json]:
        return list(self._world.store.list(PERSISTENT_VOLUME_CLAIMS).items)


def _claimed_by(volume: Json) -> str:
    """The uid of the claim that a volume names as its own."""
    uid: str = (volume["spec"].get("claimRef") or {}).get("uid", "")
    return uid


def _volume_of(claim: Json) -> str:
    name: str = claim["spec"].get("volumeName") or ""
    return name
