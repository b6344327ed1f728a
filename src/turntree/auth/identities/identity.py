"""Identities: accounts at an identity provider that are linked to members.

The issuer and the subject together name an account for ever. An e-mail address does not: it may
change, and be given to another person.
"""

from typing import Final

from turntree.core.ids import Timestamp
from turntree.core.value import value

SUBJECT_CHARS_MAX: Final = 255


@value
class LinkedAccount:
    """What a ledger tells of a linked account; the provider's own id of it stays in the row."""

    id: str
    issuer: str
    """The address of the identity provider."""
    holder: str
    """The member who logs in with it: ``human:ana``."""
    linked_at: Timestamp


@value
class ProvenAccount:
    """An account of which an identity provider has just proven that its owner is here."""

    issuer: str
    subject: str
    """The provider's own id of the account; it never changes."""
    invitee: str | None = None
    """Whom an invitation may name, and the provider vouches for it: a person, or an address."""
