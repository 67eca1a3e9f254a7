"""Requests for certificates, as CertificateSigningRequests contain them (PKCS#10 in PEM)."""

from cryptography import x509


class CertificateRequestError(ValueError):
    """A request for a certificate that cannot be read or is not signed by its key."""


def read_request(text: bytes) -> x509.CertificateSigningRequest:
    """A request in PEM. Raises CertificateRequestError."""
    try:
        asked = x509.load_pem_x509_csr(text)
        if not asked.is_signature_valid:
            raise CertificateRequestError("the signature is not that of the key")
    except ValueError as error:
        raise CertificateRequestError(str(error)) from None
    return asked
