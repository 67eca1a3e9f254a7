"""Which pod on which node has which address."""

from stowplan.embedded.kubelets.nodes import pod_address


class Addresses:
    """Gives every pod of a node an address of its own for as long as it is there."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._slots: dict[str, dict[str, int]] = {}

    def of(self, node: str, key: str) -> str:
        number = self._numbers.setdefault(node, len(self._numbers))
        slots = self._slots.setdefault(node, {})
        slot = slots.get(key)
        if slot is None:
            taken = set(slots.values())
            slot = slots[key] = next(free for free in range(len(slots) + 1) if free not in taken)
        return pod_address(number, slot)

    def release(self, node: str, key: str) -> None:
        self._slots.get(node, {}).pop(key, None)
