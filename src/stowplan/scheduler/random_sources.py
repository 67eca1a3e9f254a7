"""The random numbers of a scheduler: one generator for each part, all from one seed.

A part that draws more or fewer numbers than before does not change what the others draw. Code that makes
decisions outside a scheduler, as the simulator does, draws them from the same sources.
"""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class RandomSources:
    """`node_finder` decides between nodes of equal score; a framework's is that of its plugins."""

    metrics: Random
    frameworks: tuple[Random, ...]
    context: Random
    recorder: Random
    informers: Random
    node_finder: Random

    @classmethod
    def of(cls, rng: Random, profiles: int) -> "RandomSources":
        def draw() -> Random:
            return Random(rng.getrandbits(64))

        return cls(draw(), tuple(draw() for _ in range(profiles)), draw(), draw(), draw(), draw())
