"""Controllers of storage: volumes, claims, a provisioner, and their protection."""
