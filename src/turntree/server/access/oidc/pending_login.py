"""A login that was begun in a browser and is not finished yet. Pure.

The browser keeps a random seed in a cookie. The state, the nonce and the PKCE verifier follow from
it, by the server's key and by what the login is for: so a server stores nothing for those who only
begin, any of several servers can finish, and another browser, workspace, provider or session has
other values. A browser does not learn the nonce from its cookie, nor the verifier.
"""

import hashlib
import hmac
import re
from typing import Final, Literal

from turntree.core.canonical import canonical
from turntree.core.value import value

PENDING_S: Final = 600
"""How long a person may take at the provider."""
SKEW_S: Final = 60
"""By how much the clock of the server that began a login may be ahead of that which finishes it."""
LoginAim = Literal["login", "link"]
_COOKIE: Final = re.compile(
    r"(?P<seed>[0-9a-f]{64})\.(?P<expires>[0-9]{1,12})\.(?P<aim>login|link)"
)


@value
class LoginPlace:
    """What a login is for: another one has another state."""

    workspace: str
    issuer: str
    client_id: str
    redirect_uri: str
    login: str = ""
    """The login session to whose holder an account is to be linked."""

    def to_bytes(self) -> bytes:
        """Return a text that no other place has."""
        return canonical({
            "client_id": self.client_id,
            "issuer": self.issuer,
            "login": self.login,
            "redirect_uri": self.redirect_uri,
            "workspace": self.workspace,
        })  # fmt: skip


@value
class LoginSecrets:
    """What ties the answer of a provider to a login."""

    state: str
    """In the address to which the provider sends the browser back."""
    nonce: str
    """In the token that the provider signs."""
    verifier: str
    """What the provider asks for before it gives a token for a code."""

    @property
    def digest(self) -> bytes:
        """What is stored of a login that came back."""
        return hashlib.sha256(self.state.encode()).digest()


@value
class PendingLogin:
    """What the cookie says."""

    seed: str
    expires_at: int
    """In seconds."""
    aim: LoginAim

    @property
    def cookie(self) -> str:
        """The text of the cookie."""
        return f"{self.seed}.{self.expires_at}.{self.aim}"

    def derive(self, key: bytes, place: LoginPlace) -> LoginSecrets:
        """Return the secrets of the login."""

        def make(purpose: str) -> str:
            said = f"{purpose}\0{self.cookie}\0".encode() + place.to_bytes()
            return hmac.digest(key, said, hashlib.sha256).hex()

        return LoginSecrets(make("state"), make("nonce"), make("verifier"))


def read_pending(cookie: str | None, now_s: float) -> PendingLogin | None:
    """Return what a cookie says; None if it says nothing, or has expired."""
    found = None if cookie is None else _COOKIE.fullmatch(cookie)
    if found is None:
        return None
    aim: LoginAim = "link" if found["aim"] == "link" else "login"
    pending = PendingLogin(found["seed"], int(found["expires"]), aim)
    # A cookie that says it is valid for longer is not one that a server made: its state is wrong.
    return pending if now_s < pending.expires_at <= now_s + PENDING_S + SKEW_S else None
