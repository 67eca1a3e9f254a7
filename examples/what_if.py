"""What if? Would a deployment fit, and would it still fit without some nodes?

The cluster is the scheduler's engine on objects in memory, so an answer takes milliseconds and changes
nothing. For a copy of a real cluster, `stowplan up --load` takes the output of `kubectl get … -o yaml`.

Run it: python examples/what_if.py
"""

from collections import Counter

from stowplan.testing import cluster, node, pod

NODES = [node(f"{zone}-{n}").zone(zone).capacity(cpu="4", memory="16Gi") for zone in "abc" for n in range(2)]
RUNNING = [pod(f"old-{n}").requests(cpu="2").on(f"{'abc'[n % 3]}-0") for n in range(3)]


def web(number):
    return pod(f"web-{number}").labels(app="web").requests(cpu="1").spread("topology.kubernetes.io/zone")


def place(replicas, without=""):
    """Schedule replicas of web, without the nodes of a zone: pods by node, and messages of pending pods."""
    c = cluster(nodes=NODES, pods=RUNNING)
    c.remove(*(one for one in NODES if one.obj().name.startswith(without or "-")))
    placed, messages = Counter(), Counter()
    for number in range(replicas):
        decision = c.schedule(web(number))
        placed[decision.node] += 1
        if decision.node is None:
            messages[decision.message] += 1
    return placed, messages


def main():
    for question, replicas, without in (
        ("16 replicas", 16, ""),
        ("16 replicas without zone c", 16, "c"),
    ):
        placed, messages = place(replicas, without)
        print(f"{question}: {sum(placed.values()) - placed[None]} placed")
        for message, count in messages.items():
            print(f"  {count} pending: {message}")


if __name__ == "__main__":
    main()
