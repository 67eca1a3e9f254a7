"""An environment for training schedulers, in the manner of gymnasium: the agent chooses a node for every pod.

Observations are columns, one value a node: how much is free, how much the pod asks for, which nodes the real
filters accept, what the real plugins score. With gymnasium installed, `Env` and `spaces` make it a registered
environment (see `as_gymnasium`); without it nothing else is needed.
"""

from random import Random

import numpy as np
from msgspec.structs import replace

from stowplan.api.quantity import milli_value_of, value_of
from stowplan.simulate import Cluster
from stowplan.testing import node, pod

RESOURCES = ("cpu", "memory")


class SchedulingEnvironment:
    """An episode places a sequence of pods; a pod that is sent to a node that rejects it is lost.

    The reward of a step is the share of CPU that the pod adds to what is allocated, 0 for a lost pod. The
    episode ends after the last pod, or when a pod is accepted by no node.
    """

    def __init__(self, nodes=20, pods=100):
        self.nodes, self.pods = nodes, pods
        self._rng = Random()

    def reset(self, *, seed=None, options=None):
        """Begin an episode. Without a seed it is the next one of the last seed."""
        if seed is not None:
            self._rng = Random(seed)
        rng = self._rng
        shapes = [(8, 32), (16, 64), (32, 64)]
        made = []
        for i in range(self.nodes):
            cpu, memory = rng.choice(shapes)
            made.append(node(f"n{i}").capacity(cpu=str(cpu), memory=f"{memory}Gi", pods="110").obj())
        self._todo = []
        for i in range(self.pods):
            cpu, memory = rng.choice([1, 2, 4, 8]), rng.choice([1, 4, 16])
            self._todo.append(pod(f"p{i}").requests(cpu=str(cpu), memory=f"{memory}Gi").obj())
        self.cluster = Cluster(made, seed=rng.getrandbits(32))
        self._total = float(self._column("allocatable", "cpu").sum())
        self._next = 0
        return self._observation(), {"pod": self._todo[0].key}

    def step(self, action):
        placed = self._todo[self._next]
        accepted = bool(self._accepted[action])
        before = self._column("requested", "cpu").sum()
        if accepted:
            name = self.cluster.table.name_of(int(action))
            self.cluster.add(replace(placed, spec=replace(placed.spec, node_name=name)))
        reward = float(self._column("requested", "cpu").sum() - before) / self._total
        self._next += 1
        terminated = self._next == len(self._todo)
        observation = self._observation() if not terminated else self._last
        truncated = not terminated and not self._accepted.any()
        return observation, reward, terminated, truncated, {"pod": placed.key, "accepted": accepted}

    def allocated(self):
        """The share of the nodes' CPU that is allocated."""
        return float(self._column("requested", "cpu").sum()) / self._total

    def _observation(self):
        """The columns of the pod that comes next."""
        wanted = self._todo[self._next]
        evaluation = self.cluster.evaluate(wanted)
        self._accepted = np.zeros(self.nodes, dtype=np.int8)
        self._accepted[evaluation.feasible_rows] = 1
        scores = np.zeros(self.nodes, dtype=np.float32)
        if self._accepted.any():
            scores[evaluation.feasible_rows] = evaluation.totals()[evaluation.feasible_rows]
        found = {"accepted": self._accepted, "score": scores}
        asked = pod_requests(wanted)
        for name in RESOURCES:
            offered = self._column("allocatable", name).astype(np.float64)
            found[f"{name} free"] = (1 - self._column("requested", name) / offered).astype(np.float32)
            found[f"{name} asked"] = (asked.get(name, 0) / offered).astype(np.float32)
        self._last = found
        return found

    def _column(self, what, resource):
        table = self.cluster.table
        column = table.allocatable_of(resource) if what == "allocatable" else table.requested_of(resource)
        return column[: self.nodes]


def pod_requests(wanted):
    """What a pod asks for, in the units of the columns: CPU in thousandths, memory in bytes."""
    requests = wanted.spec.containers[0].resources.requests
    return {"cpu": milli_value_of(requests["cpu"]), "memory": value_of(requests["memory"])}


def as_gymnasium(nodes=20, pods=100):
    """The same as a `gymnasium.Env`, with its spaces."""
    import gymnasium
    from gymnasium import spaces

    class Env(SchedulingEnvironment, gymnasium.Env):
        action_space = spaces.Discrete(nodes)
        observation_space = spaces.Dict(
            {
                "accepted": spaces.MultiBinary(nodes),
                "score": spaces.Box(0, np.inf, (nodes,), np.float32),
                **{
                    f"{name} {what}": spaces.Box(-np.inf, np.inf, (nodes,), np.float32)
                    for name in RESOURCES
                    for what in ("free", "asked")
                },
            }
        )

        def reset(self, *, seed=None, options=None):
            gymnasium.Env.reset(self, seed=seed)
            return SchedulingEnvironment.reset(self, seed=seed, options=options)

    return Env(nodes, pods)


def at_random(observation, rng):
    """Any node that accepts the pod."""
    return rng.choice(np.flatnonzero(observation["accepted"]).tolist())


def best_fit(observation, rng):
    """The fullest node that accepts the pod."""
    return int(np.argmin(np.where(observation["accepted"], observation["cpu free"], np.inf)))


def by_score(observation, rng):
    """What the default plugins like best."""
    return int(np.argmax(np.where(observation["accepted"], observation["score"], -1)))


def main():
    for policy in (at_random, best_fit, by_score):
        shares, placed = [], 0
        for seed in range(5):
            rng, environment = Random(seed), SchedulingEnvironment()
            observation, _ = environment.reset(seed=seed)
            over = False
            while not over:
                action = policy(observation, rng)
                observation, _, terminated, truncated, info = environment.step(action)
                placed += info["accepted"]
                over = terminated or truncated
            shares.append(environment.allocated())
        print(f"{policy.__name__}: {placed} pods in 5 episodes, {np.mean(shares):.1%} of the CPU allocated")


if __name__ == "__main__":
    main()
