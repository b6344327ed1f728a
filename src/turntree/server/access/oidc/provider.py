"""Talks to an identity provider: its description, its keys, and codes for ID tokens.

Its address comes from the person who runs the server, so it may be on a private network. Everything
else is bounded: no redirect is followed, no body is unpacked or longer than a limit, and no
question takes longer than a few seconds. Loaded only by a server that has a provider.
"""

import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from http import HTTPStatus
from importlib import import_module
from time import monotonic
from typing import Any, Final, cast

import anyio
import httpx2
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet

from turntree.auth.identities.identity import ProvenAccount
from turntree.core.errors import PermissionDenied
from turntree.core.value import value
from turntree.server.access.oidc.claims import HASHES, ExpectedToken, account_of, check_claims
from turntree.server.access.oidc.config import (
    IdentityProviderConfig,
    ProviderUnavailable,
    is_loopback,
    is_safe_url,
)
from turntree.server.access.oidc.pending_login import LoginSecrets

SCOPE: Final = "openid email profile"
WELL_KNOWN: Final = "/.well-known/openid-configuration"
ANSWER_BYTES_MAX: Final = 262_144
QUESTION_S_MAX: Final = 10.0
KEPT_S: Final = 3_600.0
"""How long the description and the keys of a provider count."""
AGAIN_S: Final = 5.0
"""After a failure, or for a key that is not there, a provider is asked again no sooner."""
KEY_TYPES: Final = frozenset({"RSA", "EC", "OKP"})
"""Kinds of keys of which a provider shows the public half only."""
logger: Final = logging.getLogger(__name__)


@value
class ProviderMetadata:
    """What the provider says of itself."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    auth_method: str
    names_issuer: bool
    """Whether it says who it is when it sends a browser back."""


class IdentityProvider:
    """A provider, and what is known of it."""

    def __init__(self, config: IdentityProviderConfig) -> None:
        """Ask nothing yet."""
        self.config = config
        self._asking = anyio.Lock()
        self._metadata: ProviderMetadata | None = None
        self._keys: KeySet | None = None
        self._metadata_at = self._keys_at = self._failed_at = -KEPT_S

    async def authorization_url(self, secrets: LoginSecrets, redirect_uri: str) -> str:
        """Return where a browser goes to prove who its person is.

        Raises:
            ProviderUnavailable: The provider does not describe itself.
        """
        metadata = await self._find_metadata()
        async with self._client(metadata, redirect_uri) as client:
            url, _ = client.create_authorization_url(
                metadata.authorization_endpoint,
                state=secrets.state,
                nonce=secrets.nonce,
                code_verifier=secrets.verifier,
            )
        return str(url)

    async def check_issuer(self, named: str | None) -> None:
        """Refuse the answer of another provider, or one that should say whose it is (RFC 9207).

        Raises:
            PermissionDenied: It is another provider's, or does not say.
            ProviderUnavailable: The provider does not describe itself.
        """
        if named is None and not (await self._find_metadata()).names_issuer:
            return
        if named != self.config.issuer:
            raise PermissionDenied("another identity provider sent this browser back")

    async def redeem(
        self, code: str, secrets: LoginSecrets, redirect_uri: str, now_s: float
    ) -> ProvenAccount:
        """Return the account whose owner the provider has sent back with a code.

        Raises:
            PermissionDenied: The provider refuses the code, or its ID token is not for this login.
            ProviderUnavailable: The provider does not answer as it should.
        """
        metadata = await self._find_metadata()
        async with self._client(metadata, redirect_uri) as client:
            token = await self._fetch_token(client, metadata, code, secrets)
        text, access = token.get("id_token"), token.get("access_token")
        if not isinstance(text, str) or not isinstance(access, str):
            raise PermissionDenied("the provider sent no ID token")
        algorithm, claims = await self._verify_signature(text, metadata)
        expected = ExpectedToken(self.config.issuer, self.config.client_id, secrets.nonce, access)
        subject = check_claims(claims, algorithm, expected, now_s)
        return account_of(self.config, subject, claims)

    async def _fetch_token(
        self, client: Any, metadata: ProviderMetadata, code: str, secrets: LoginSecrets
    ) -> Mapping[str, Any]:
        refused = import_module("authlib.integrations.base_client").OAuthError
        try:
            with anyio.fail_after(QUESTION_S_MAX):
                return cast(
                    "Mapping[str, Any]",
                    await client.fetch_token(
                        metadata.token_endpoint,
                        grant_type="authorization_code",
                        code=code,
                        code_verifier=secrets.verifier,
                        redirect_uri=client.redirect_uri,
                    ),
                )
        except refused as error:
            # What the provider says stays in the log: it is a text of another machine.
            logger.warning("identity provider %s refused a code: %r", self.config.name, str(error))
            raise PermissionDenied("the identity provider refused the code") from error
        except (httpx2.HTTPError, TimeoutError, ValueError, TypeError, AttributeError) as error:
            # The last two are what Authlib makes of an answer that is no object.
            raise self._failure(error) from error

    async def _verify_signature(
        self, text: str, metadata: ProviderMetadata
    ) -> tuple[str, Mapping[str, Any]]:
        keys = await self._find_keys(metadata)
        try:
            try:
                token = jwt.decode(text, keys, algorithms=list(HASHES))
            except InvalidKeyIdError:
                # The provider may have taken a new key since.
                keys = await self._find_keys(metadata, is_new=True)
                token = jwt.decode(text, keys, algorithms=list(HASHES))
        except (JoseError, ValueError) as error:
            raise PermissionDenied("the ID token is not signed by the provider") from error
        return str(token.header["alg"]), token.claims

    async def _find_metadata(self) -> ProviderMetadata:
        async with self._asking:
            if self._metadata is None or monotonic() - self._metadata_at >= KEPT_S:
                url = self.config.issuer.rstrip("/") + WELL_KNOWN
                document = await self._get(url)
                try:
                    self._metadata = read_metadata(self.config, document)
                except ValueError as error:
                    raise self._failure(error) from error
                self._metadata_at = monotonic()
            return self._metadata

    async def _find_keys(self, metadata: ProviderMetadata, *, is_new: bool = False) -> KeySet:
        async with self._asking:
            age = monotonic() - self._keys_at
            if self._keys is None or age >= (AGAIN_S if is_new else KEPT_S):
                document = await self._get(metadata.jwks_uri)
                try:
                    self._keys = read_keys(document)
                except (JoseError, ValueError, TypeError, KeyError) as error:
                    raise self._failure(error) from error
                self._keys_at = monotonic()
            return self._keys

    async def _get(self, url: str) -> Mapping[str, Any]:
        if monotonic() - self._failed_at < AGAIN_S:
            raise ProviderUnavailable(self.config.name)
        try:
            async with httpx2.AsyncClient(**self._bounds()) as client:
                with anyio.fail_after(QUESTION_S_MAX):
                    answer = await client.get(url, headers={"accept": "application/json"})
            document = answer.json()
        except (httpx2.HTTPError, TimeoutError, ValueError) as error:
            raise self._failure(error) from error
        if answer.status_code != HTTPStatus.OK or not isinstance(document, dict):
            raise self._failure(ValueError(f"{url} did not answer with an object"))
        return cast("Mapping[str, Any]", document)

    def _failure(self, error: Exception) -> ProviderUnavailable:
        self._failed_at = monotonic()
        logger.warning("identity provider %s: %r", self.config.name, error)
        return ProviderUnavailable(self.config.name)

    @asynccontextmanager
    async def _client(
        self, metadata: ProviderMetadata, redirect_uri: str
    ) -> AsyncGenerator[Any, None]:
        # One for each login: what it was told last is the token of one person.
        make: Any = import_module("authlib.integrations.httpx_client").AsyncOAuth2Client
        async with make(
            self.config.client_id,
            self.config.secret,
            token_endpoint_auth_method=metadata.auth_method,
            code_challenge_method="S256",
            scope=SCOPE,
            redirect_uri=redirect_uri,
            **self._bounds(),
        ) as client:
            yield client

    def _bounds(self) -> dict[str, Any]:
        return {
            "transport": BoundedTransport(self._trusted),
            "headers": {"accept-encoding": "identity"},
            "follow_redirects": False,
            "timeout": QUESTION_S_MAX,
            # Neither a proxy nor a password from the environment.
            "trust_env": False,
        }

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()


class BoundedTransport(httpx2.AsyncBaseTransport):
    """Sends requests, and reads answers up to a limit."""

    def __init__(self, trusted: ssl.SSLContext) -> None:
        """Take the certificates that count."""
        self._inner = httpx2.AsyncHTTPTransport(verify=trusted, trust_env=False)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Return the answer to a request, as it was sent."""
        answer = await self._inner.handle_async_request(request)
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            await answer.aclose()
            # A few bytes could become many.
            raise httpx2.DecodingError("the answer is packed, and was not asked to be")
        stream = cast("httpx2.AsyncByteStream", answer.stream)
        return httpx2.Response(
            answer.status_code,
            headers=answer.headers,
            stream=_BoundedStream(stream),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = ANSWER_BYTES_MAX
        async for piece in self._inner:
            left -= len(piece)
            if left < 0:
                raise httpx2.ReadError(f"the answer has more than {ANSWER_BYTES_MAX:,} bytes")
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


def read_metadata(config: IdentityProviderConfig, document: Mapping[str, Any]) -> ProviderMetadata:
    """Return what the description of a provider says.

    Raises:
        ValueError: It is another provider's, lacks an address, or names one that is not safe.
    """
    if document.get("issuer") != config.issuer:
        raise ValueError(f"it calls itself {document.get('issuer')!r}, not {config.issuer!r}")
    near = is_loopback(httpx2.URL(config.issuer).host)
    urls: list[str] = []
    for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
        url = document.get(name)
        if not isinstance(url, str) or not is_safe_url(url, near=near):
            raise ValueError(f"its {name} is not an https address: {url!r}")
        urls.append(url)
    challenges = document.get("code_challenge_methods_supported", ["S256"])
    if not isinstance(challenges, list) or "S256" not in challenges:
        raise ValueError("it does not support PKCE with S256")
    # By the standard, a provider that does not say takes the secret as a password.
    methods = document.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    method = "client_secret_basic"
    if config.secret is None:
        method = "none"
    elif isinstance(methods, list) and method not in methods:
        method = "client_secret_post"
    authorization, token, jwks = urls
    names_issuer = document.get("authorization_response_iss_parameter_supported") is True
    return ProviderMetadata(authorization, token, jwks, method, names_issuer)


def read_keys(document: Mapping[str, Any]) -> KeySet:
    """Return the keys with which a provider signs; those for other purposes are left out.

    Raises:
        ValueError: It has none.
        JoseError: A key is not one.
    """
    found: list[object] = document["keys"]
    keys = [cast("Mapping[str, Any]", one) for one in found if isinstance(one, dict)]
    signing = [
        dict(one) for one in keys
        if one.get("kty") in KEY_TYPES and one.get("use", "sig") == "sig"
    ]  # fmt: skip
    if not signing:
        raise ValueError("it has no key with which it signs")
    return KeySet.import_key_set({"keys": signing})
