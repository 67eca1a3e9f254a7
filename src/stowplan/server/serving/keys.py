"""The private key of a certificate that is made here. It takes long to find, so it can be begun ahead."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeAlias

from cryptography.hazmat.primitives.asymmetric import rsa

_BITS: Final = 2048
_EXPONENT: Final = 65537

NewKey: TypeAlias = Callable[[], rsa.RSAPrivateKey]
"""Creates a new private key."""


def new_key() -> rsa.RSAPrivateKey:
    """Find a key."""
    return rsa.generate_private_key(_EXPONENT, _BITS)


def new_key_ahead() -> NewKey:
    """Begin to look for a key in a thread; who asks for it waits for it, and who asks again gets another.

    Looking for it leaves Python to others: modules can be loaded meanwhile.
    """
    thread = ThreadPoolExecutor(1, thread_name_prefix="serving key")
    begun = [thread.submit(new_key)]
    thread.shutdown(wait=False)
    return lambda: begun.pop().result() if begun else new_key()
