"""Controllers of nodes: their lifecycle, taint-based eviction, and garbage collection of pods."""
