"""The structured allocator: the search for devices, their pools, selectors and constraints."""
