"""Controllers of resource claims, device taints and pod groups."""
