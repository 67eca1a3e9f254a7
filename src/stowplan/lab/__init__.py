"""How stowplan itself is tested and measured: benchmarks, fault injection, fuzzing, recorded decisions."""
