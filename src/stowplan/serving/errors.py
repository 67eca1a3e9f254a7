"""What keeps the secure port from opening."""


class ServingError(ValueError):
    """Settings or files that cannot be used, or an address that cannot be had; one line that says which."""
