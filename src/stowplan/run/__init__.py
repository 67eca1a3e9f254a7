"""`stowplan run`: a scheduler as a process of its own, in kube-scheduler's place."""
