"""Identity providers on loopback: one from PyPI, and a strict one of our own that can also forge.

``oidc-provider-mock`` is a server that we did not write. It takes every client and every secret,
checks neither PKCE nor where it sends a browser, and signs one kind of token only. What depends on
those is asked of ``StrictProvider``: it verifies the client, its secret, the address and the PKCE
verifier, gives out a code once, and signs any token that it is told to.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import secrets
import signal
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlencode

import httpx2
import uvicorn
from joserfc import jwt
from joserfc.jwk import ECKey, KeySet, RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from proofs.http_world import TEAM
from turntree.server.access.oidc.config import IdentityProviderConfig

START_S_MAX: Final = 60.0
CLIENT: Final = "turntree"
CLIENT_SECRET: Final = "a secret of client and provider"  # noqa: S105 - of a server of the proof
Claims = dict[str, Any]
Forgery = Callable[["StrictProvider", Claims], str]
"""Makes a token of the claims that an honest one would have."""


@contextlib.asynccontextmanager
async def mock_provider(*words: str) -> AsyncGenerator[str, None]:
    """Run oidc-provider-mock in a process of its own, and yield its issuer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "oidc_provider_mock", "--port", str(port), *words,
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None, "it was asked for"
    told: list[bytes] = []
    reading: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(START_S_MAX):
            while not any(b"running on" in line for line in told):
                line = await process.stderr.readline()
                if not line:
                    raise RuntimeError(f"oidc-provider-mock ended: {b''.join(told).decode()}")
                told.append(line)
        reading = asyncio.create_task(_read_all(process.stderr))
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        await process.wait()
        if reading is not None:
            await reading


async def _read_all(stream: asyncio.StreamReader) -> None:
    while await stream.read(65_536):
        pass


@dataclass(slots=True)
class Grant:
    """What a code stands for."""

    redirect_uri: str
    nonce: str
    challenge: str
    claims: Claims


@dataclass(slots=True)
class StrictProvider:
    """A provider in this process, whose person is logged in already."""

    issuer: str = ""
    person: Claims = field(default_factory=lambda: {"sub": "s-1"})
    """The claims of the account with which a browser comes."""
    redirect_uris: set[str] = field(default_factory=set[str])
    forge: Forgery | None = None
    says: Claims = field(default_factory=dict[str, Any])
    """Members of its description that are other than true."""
    answers: dict[str, Callable[[], Response]] = field(
        default_factory=dict[str, Callable[[], Response]]
    )
    """Other answers, by path."""
    key: RSAKey = field(default_factory=lambda: RSAKey.generate_key(2048, {"kid": "k-1"}))
    codes: dict[str, Grant] = field(default_factory=dict[str, Grant])
    asked: list[str] = field(default_factory=list[str])
    """The paths of all requests."""
    refusals: list[str] = field(default_factory=list[str])
    """Why codes were refused."""
    is_public: bool = False
    """Whether its client has no secret."""

    def config(self, **more: Any) -> IdentityProviderConfig:
        """Return how a server is told of it."""
        secret = None if self.is_public else CLIENT_SECRET
        return IdentityProviderConfig(
            more.pop("name", "Example"), self.issuer, CLIENT, secret, **more
        )

    def write_config(self, folder: Path) -> str:
        """Return a file that tells a server of it; the secret is its variable ``SECRET``."""
        file = folder / "providers.toml"
        file.write_text(
            f'[Example]\nissuer = "{self.issuer}"\nclient_id = "{CLIENT}"\n'
            'client_secret = "${SECRET}"\n'
        )
        return str(file)

    def sign(self, claims: Claims, **header: Any) -> str:
        """Return an honest token of any claims."""
        return jwt.encode({"alg": "RS256", "kid": self.key.kid, **header}, claims, self.key)

    def routes(self) -> list[Route]:
        """Return what it serves."""
        return [
            Route("/.well-known/openid-configuration", self._describe),
            Route("/keys", self._show_keys),
            Route("/authorize", self._authorize),
            Route("/token", self._issue, methods=["POST"]),
        ]

    def _other(self, request: Request) -> Response | None:
        self.asked.append(request.url.path)
        make = self.answers.get(request.url.path)
        return None if make is None else make()

    async def _describe(self, request: Request) -> Response:
        return self._other(request) or JSONResponse({
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            **self.says,
        })  # fmt: skip

    async def _show_keys(self, request: Request) -> Response:
        return self._other(request) or JSONResponse(KeySet([self.key]).as_dict(private=False))

    async def _authorize(self, request: Request) -> Response:
        if (other := self._other(request)) is not None:
            return other
        asked = request.query_params
        wanted = {"response_type": "code", "client_id": CLIENT, "code_challenge_method": "S256"}
        if any(asked.get(name) != text for name, text in wanted.items()):
            return JSONResponse({"error": "invalid_request"}, 400)
        back = asked.get("redirect_uri", "")
        if back not in self.redirect_uris or "openid" not in asked.get("scope", "").split():
            return JSONResponse({"error": "invalid_request_uri"}, 400)
        code = secrets.token_hex(16)
        self.codes[code] = Grant(
            back, asked.get("nonce", ""), asked["code_challenge"], dict(self.person)
        )
        said = {"code": code, "state": asked.get("state", ""), "iss": self.issuer}
        return RedirectResponse(f"{back}?{urlencode(said)}", 302)

    async def _issue(self, request: Request) -> Response:
        if (other := self._other(request)) is not None:
            return other
        form = dict(parse_qsl((await request.body()).decode()))
        grant = self.codes.pop(form.get("code", ""), None)
        verifier = form.get("code_verifier", "")
        challenge = _pack(hashlib.sha256(verifier.encode()).digest())
        given = base64.b64encode(f"{CLIENT}:{CLIENT_SECRET}".encode()).decode()
        fault = ""
        if self.is_public:
            fault = "" if form.get("client_id") == CLIENT else "client"
        elif request.headers.get("authorization") != f"Basic {given}":
            fault = "client"
        if grant is None:
            fault = fault or "code"
        elif form.get("redirect_uri") != grant.redirect_uri:
            fault = fault or "redirect_uri"
        elif challenge != grant.challenge:
            fault = fault or "verifier"
        if fault or grant is None:
            self.refusals.append(fault)
            return JSONResponse({"error": "invalid_grant", "error_description": fault}, 400)
        access = secrets.token_hex(16)
        digest = hashlib.sha256(access.encode()).digest()
        now = int(time.time())
        claims = {
            "iss": self.issuer, "aud": CLIENT, "exp": now + 300, "iat": now, "nonce": grant.nonce,
            "at_hash": _pack(digest[:16]), **grant.claims,
        }  # fmt: skip
        token = self.sign(claims) if self.forge is None else self.forge(self, claims)
        return JSONResponse({"access_token": access, "token_type": "Bearer", "id_token": token})


@contextlib.asynccontextmanager
async def strict_provider() -> AsyncGenerator[StrictProvider, None]:
    """Run a strict provider in this process."""
    listener = socket.create_server(("127.0.0.1", 0))
    provider = StrictProvider(f"http://127.0.0.1:{listener.getsockname()[1]}")
    server = uvicorn.Server(
        uvicorn.Config(
            Starlette(routes=provider.routes()),
            log_level="critical",
            access_log=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=1,
        )
    )
    task = asyncio.create_task(server.serve([listener]))
    try:
        yield provider
    finally:
        server.should_exit = True
        await task


def _changed(**changes: Any) -> Forgery:
    return lambda provider, claims: provider.sign({**claims, **changes})


def _without(name: str) -> Forgery:
    return lambda provider, claims: provider.sign(
        {key: text for key, text in claims.items() if key != name}
    )


def _pack(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()


def _unsigned(_: StrictProvider, claims: Claims) -> str:
    head = json.dumps({"alg": "none", "typ": "JWT"}).encode()
    return f"{_pack(head)}.{_pack(json.dumps(claims).encode())}."


def _by_shared_key(provider: StrictProvider, claims: Claims, key: bytes) -> str:
    head = json.dumps({"alg": "HS256", "kid": provider.key.kid}).encode()
    said = f"{_pack(head)}.{_pack(json.dumps(claims).encode())}"
    return f"{said}.{_pack(hmac.digest(key, said.encode(), hashlib.sha256))}"


def _by_public_key(provider: StrictProvider, claims: Claims) -> str:
    # What a verifier accepts that takes the algorithm from the token, and the key as bytes.
    return _by_shared_key(provider, claims, provider.key.as_pem(private=False))


def _by_secret(provider: StrictProvider, claims: Claims) -> str:
    return _by_shared_key(provider, claims, CLIENT_SECRET.encode())


def _by_another_key(provider: StrictProvider, claims: Claims) -> str:
    key = RSAKey.generate_key(2048, {"kid": str(provider.key.kid)})
    return jwt.encode({"alg": "RS256", "kid": provider.key.kid}, claims, key)


def _by_key_in_header(_: StrictProvider, claims: Claims) -> str:
    key = ECKey.generate_key("P-256", {"kid": "mine"})
    header = {"alg": "ES256", "kid": "mine", "jwk": key.as_dict(private=False)}
    return jwt.encode(header, claims, key)


def _altered(provider: StrictProvider, claims: Claims) -> str:
    head, _, signature = provider.sign(claims).split(".")
    return f"{head}.{_pack(json.dumps({**claims, 'exp': claims['exp'] + 1}).encode())}.{signature}"


FORGERIES: Final[Mapping[str, Forgery]] = {
    "no signature (alg none)": _unsigned,
    "HS256 with the public key": _by_public_key,
    "HS256 with the client's secret": _by_secret,
    "signed by another key": _by_another_key,
    "signed by a key in its own header": _by_key_in_header,
    "altered after it was signed": _altered,
    "foreign nonce": _changed(nonce="guessed"),
    "no nonce": _without("nonce"),
    "foreign audience": _changed(aud="another-client"),
    "our audience and another one": _changed(aud=[CLIENT, "another-client"]),
    "no audience": _without("aud"),
    "issued to another client": _changed(azp="another-client"),
    "wrong issuer": _changed(iss="https://evil.example.net"),
    "no issuer": _without("iss"),
    "expired": _changed(exp=int(time.time()) - 3_600),
    "never expires": _without("exp"),
    "expiry that is no number": _changed(exp=float("nan")),
    "issued tomorrow": _changed(iat=int(time.time()) + 86_400),
    "for another access token": _changed(at_hash="AAAAAAAAAAAAAAAAAAAAAA"),
    "no subject": _without("sub"),
    "a subject that is no text": _changed(sub=["s-1"]),
    "no token at all": lambda _, __: "not a token",
}
"""Tokens that an honest provider would not send, each by what is wrong with it."""


class LoginBrowser:
    """A browser that goes from the login page to a provider and back, with cookies of its own."""

    def __init__(self, url: str, workspace: str = TEAM) -> None:
        """Stand before the login page of a workspace."""
        self.url = url
        self.workspace = workspace
        self.http = httpx2.AsyncClient(timeout=START_S_MAX, follow_redirects=True)

    async def __aenter__(self) -> Self:
        """Open it."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.http.aclose()

    async def post(self, path: str, body: Mapping[str, Any], **headers: str) -> httpx2.Response:
        """Send a request of the login page."""
        sent = {"origin": self.url, "sec-fetch-site": "same-origin", "idempotency-key": "k"}
        return await self.http.post(self._at(path), json=body, headers={**sent, **headers})

    async def get(self, path: str) -> httpx2.Response:
        """Read something as the login page does."""
        return await self.http.get(self._at(path), headers={"sec-fetch-site": "same-origin"})

    async def begin(self, aim: str = "login") -> str:
        """Begin a login, and return where the browser is sent."""
        answer = await self.post("/identity-logins", {"aim": aim})
        if answer.status_code != httpx2.codes.OK:
            raise RuntimeError(f"the login did not begin: {answer.text}")
        return str(answer.json()["url"])

    async def visit(self, url: str, subject: str | None = None) -> dict[str, str]:
        """Go to a provider and back, and return what it sent along.

        ``subject`` is who logs in where the provider shows a form.
        """
        answer = (
            await self.http.get(url)
            if subject is None
            else await self.http.post(url, data={"sub": subject})
        )
        if not str(answer.url).startswith(f"{self.url}/w/{self.workspace}/login?"):
            raise RuntimeError(f"the provider did not send the browser back: {answer.text[:300]}")
        return dict(answer.url.params)

    async def finish(self, answer: Mapping[str, str]) -> httpx2.Response:
        """Show the server what the provider sent along."""
        return await self.post("/identity-logins/finish", answer)

    async def log_in(self, subject: str | None = None, aim: str = "login") -> httpx2.Response:
        """Do all three."""
        return await self.finish(await self.visit(await self.begin(aim), subject))

    async def user(self) -> str | None:
        """Return the name of the person who is logged in."""
        answer = await self.get("/me")
        return str(answer.json()["user"]) if answer.status_code == httpx2.codes.OK else None

    def _at(self, path: str) -> str:
        return f"{self.url}/w/{self.workspace}/api/v1{path}"
