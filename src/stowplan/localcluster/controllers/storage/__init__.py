"""Controllers of storage: volumes and claims (`persistentvolume`), a provisioner, and their protection."""
