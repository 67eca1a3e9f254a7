"""Controllers of projects beside Kubernetes: JobSet, LeaderWorkerSet. `stowplan up --with` turns them on."""
