"""``tree.tokens``: what a ledger knows of the tokens that were issued."""

import pytest

from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.token import TokenRecord
from turntree.core.ids import Timestamp

pytestmark = pytest.mark.anyio

LATER = Timestamp("2099-01-01T00:00:00.000Z")
KEY = b"k" * 32


async def test_tokens_come_in_pages_in_order_of_issue(tree: Tree) -> None:
    ana = ExecutionContext.begin(tree.tokens.by)
    nonces = [
        (await tree.tokens.issue(ana, key=KEY, audience="worker", expires_at=LATER))[1]
        for _ in range(5)
    ]
    # What happens to a token later does not move it to another page.
    await tree.tokens.revoke(nonces[0], reason="it leaked")
    listed: list[TokenRecord] = []
    sizes: list[int] = []
    while page := await tree.tokens.list_all(after=listed[-1] if listed else None, limit=2):
        listed += page
        sizes.append(len(page))
    assert sizes == [2, 2, 1]
    assert [token.nonce for token in listed] == nonces
    assert [token.reason for token in listed] == ["it leaked", None, None, None, None]
    assert listed == await tree.tokens.list_all()
