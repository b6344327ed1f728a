"""A server on this machine that plays Cloudflare's AI Gateway, and remembers every request.

Clients believe that they reach the real host by HTTPS: the server is their proxy, opens the tunnel
they ask for, shows a certificate for that host which only their environment trusts, and passes the
requests to a scripted model. Nothing leaves the machine.
"""

import os
import ssl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import ClassVar, Self, cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from turntree.testing.scripted.server import Reply, Rule, ScriptedModel

HOST = "gateway.ai.cloudflare.com"
ACCOUNT, GATEWAY, TOKEN = "account-1", "gateway-1", "token-of-the-gateway"
KEYS = {
    "ANTHROPIC_API_KEY": "key-of-anthropic",
    "OPENAI_API_KEY": "key-of-openai",
    "GEMINI_API_KEY": "key-of-google",
}
VENDORS = (
    (f"/v1/{ACCOUNT}/{GATEWAY}/anthropic/", KEYS["ANTHROPIC_API_KEY"]),
    (f"/v1/{ACCOUNT}/{GATEWAY}/openai/", KEYS["OPENAI_API_KEY"]),
    (f"/v1/{ACCOUNT}/{GATEWAY}/google-ai-studio/", KEYS["GEMINI_API_KEY"]),
)
"""The path of each vendor, as Cloudflare documents it, and the vendor's key."""
KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key")


class PlayedGateway(ScriptedModel):
    """A scripted model behind a proxy's tunnel to the gateway's host."""

    def __init__(self, context: ssl.SSLContext) -> None:
        """Take the certificate."""
        super().__init__(rules=[Rule((Reply("It is recorded."),))])
        self.context = context
        self.tunnels: list[str] = []
        """The hosts that clients asked for."""
        self.heads: list[tuple[str, dict[str, str]]] = []
        """Path and headers of each request, with the keys."""

    def __enter__(self) -> Self:
        """Listen as a proxy too."""
        super().__enter__()
        handler = cast("type", self._http.RequestHandlerClass)
        self._http.RequestHandlerClass = type("Tunnel", (_Tunnel, handler), {"gateway": self})
        return self


def judge(path: str, headers: Mapping[str, str]) -> str | None:
    """Return what is wrong with a request to the gateway, or None."""
    if headers.get("cf-aig-authorization") != f"Bearer {TOKEN}":
        return f"{path} without the gateway's token"
    for start, key in VENDORS:
        if path.startswith(start):
            sent = [headers[name] for name in KEY_HEADERS if name in headers]
            is_right = [text.removeprefix("Bearer ") for text in sent] == [key]
            return None if is_right else f"{path} with another key than its vendor's"
    return f"no vendor has the path {path}"


@contextmanager
def playing(folder: Path) -> Generator[PlayedGateway, None]:
    """Play the gateway, and have the environment of this process lead to it."""
    certificate, key = folder / "gateway.pem", folder / "gateway.key"
    certify(certificate, key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with PlayedGateway(context) as gateway:
        os.environ.update(
            KEYS,
            HTTPS_PROXY=gateway.url,
            SSL_CERT_FILE=str(certificate),
            CLOUDFLARE_ACCOUNT_ID=ACCOUNT,
            CLOUDFLARE_GATEWAY_ID=GATEWAY,
            CF_AIG_TOKEN=TOKEN,
        )
        yield gateway


def certify(certificate: Path, key: Path) -> None:
    """Write a certificate of the gateway's host that signs itself, and its key."""
    private = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(private, hashes.SHA256())
    )
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


class _Tunnel(BaseHTTPRequestHandler):
    """A connection to the model's server, or through it to the gateway's host."""

    gateway: ClassVar[PlayedGateway]

    def parse_request(self) -> bool:
        """Read the head of a request, and remember it."""
        is_read = super().parse_request()
        if is_read and self.command != "CONNECT":
            headers = {name.lower(): text for name, text in self.headers.items()}
            self.gateway.heads.append((self.path, headers))
        return is_read

    def do_CONNECT(self) -> None:
        """Open a tunnel that ends here."""
        self.gateway.tunnels.append(self.path)
        self.close_connection = True
        if self.path != f"{HOST}:443":
            self.send_error(403)
            return
        self.send_response_only(200)
        self.end_headers()
        with self.gateway.context.wrap_socket(self.connection, server_side=True) as inside:
            type(self)(inside, self.client_address, self.server)
