"""A provider whose library takes its time to load."""

import threading

import anyio
import anyio.to_thread
import pytest

from turntree.core.message import user
from turntree.models.prompt import Prompt
from turntree.models.provider import ModelReply, Provider
from turntree.models.providers.factory import build_provider
from turntree.models.providers.lazy import LazyProvider

pytestmark = pytest.mark.anyio

PROMPT = Prompt((), (user("hello"),))


async def test_loading_a_vendor_does_not_block_other_tasks() -> None:
    gate, began = threading.Event(), threading.Event()

    def build() -> Provider:
        began.set()
        assert gate.wait(10)
        return build_provider({"provider_type": "scripted"}, str)

    provider = LazyProvider("slow", build)
    answers: list[ModelReply] = []

    async def ask() -> None:
        answers.append(await provider.request("scripted-1", PROMPT, {}))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(ask)
        await anyio.to_thread.run_sync(began.wait)
        assert not answers
        gate.set()
    assert [answer.message.text for answer in answers] == ["hello", "hello"]
    await provider.aclose()


async def test_a_request_that_is_canceled_does_not_wait_for_the_library() -> None:
    gate, began = threading.Event(), threading.Event()

    def build() -> Provider:
        began.set()
        assert gate.wait(10)
        return build_provider({"provider_type": "scripted"}, str)

    provider = LazyProvider("slow", build)

    async def ask() -> None:
        await provider.request("scripted-1", PROMPT, {})

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.to_thread.run_sync(began.wait)
            tasks.cancel_scope.cancel()
        assert not gate.is_set()
    finally:
        gate.set()
    answer = await provider.request("scripted-1", PROMPT, {})
    assert answer.message.text == "hello"


async def test_what_was_never_asked_is_never_loaded() -> None:
    def build() -> Provider:
        raise AssertionError("nobody asked")

    provider = LazyProvider("lazy", build)
    assert (provider.name, repr(provider)) == ("lazy", "<provider lazy>")
    await provider.aclose()
