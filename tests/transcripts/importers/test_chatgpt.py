"""ChatGPT's export, from conversations that this file makes: they are synthetic throughout."""

import json
import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from proofs.transcripts.chatgpt import START, conversation, node, root, write
from proofs.transcripts.mangle import mangled
from turntree.core.message import (
    Media,
    Message,
    OpaquePart,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
)
from turntree.core.message_context import TouchedFile, files_of
from turntree.core.principal import Principal
from turntree.ledger.raw_codec import RawRecord
from turntree.testing.contracts.importer import check_importer
from turntree.transcripts.drafts import Projection, seal_drafts
from turntree.transcripts.importers.chatgpt.importer import ChatGptImporter
from turntree.transcripts.importers.shared import export_files
from turntree.transcripts.importers.shared.export_files import elements


def told(path: Path, id: str = "c1") -> Projection:
    importer = ChatGptImporter()
    bundle = next(bundle for bundle in importer.open(path) if bundle.id == id)
    return importer.project(bundle, list(importer.read(bundle)))


def one(tmp_path: Path, *nodes: dict[str, Any], **more: Any) -> Projection:
    return told(write(tmp_path, [conversation(*nodes, **more)]))


def answer(tmp_path: Path, content: object, **more: Any) -> Message:
    """Return what a model's node becomes."""
    nodes = (root(), node("u", "root", "user", "q"), node("a", "u", "assistant", content, **more))
    return one(tmp_path, *nodes).turns[0].reply[0]


def test_a_tree_becomes_turns_and_siblings_are_branches(tmp_path: Path) -> None:
    projection = one(
        tmp_path,
        root(),
        node("u1", "root", "user", "first"),
        node("a1", "u1", "assistant", "one"),
        node("a1b", "u1", "assistant", "one again"),
        node("u2", "a1", "user", "second"),
        node("u2b", "a1", "user", "second, edited"),
        node("a2b", "u2b", "assistant", "two, edited"),
        node("a2", "u2", "assistant", "two"),
        current_node="a2b",
    )
    spoken = {
        turn.key: (turn.parent, turn.query[0].text, turn.reply[0].text) for turn in projection.turns
    }
    assert spoken == {
        "a1": (None, "first", "one"),
        "a1b": (None, "first", "one again"),
        "a2": ("a1", "second", "two"),
        "a2b": ("a1", "second, edited", "two, edited"),
    }
    (session,) = projection.sessions
    assert (session.id, session.head, session.title) == ("c1", "a2b", "A title")


def test_an_answer_written_again_after_a_call_shares_the_call(tmp_path: Path) -> None:
    projection = one(
        tmp_path,
        node("u", None, "user", "q"),
        node("c", "u", "assistant", "{}", recipient="browser"),
        node("t", "c", "tool", "found", name="browser"),
        node("x", "t", "assistant", "one"),
        node("y", "t", "assistant", "other"),
    )
    first, second = projection.turns
    assert first.reply[:2] == second.reply[:2]
    assert (first.reply[-1].text, second.reply[-1].text) == ("one", "other")
    assert len({turn.sealed.turn.id for turn in sealed(projection)}) == 2


def test_an_answer_that_was_both_continued_and_asked_about_is_two_turns(tmp_path: Path) -> None:
    projection = one(
        tmp_path,
        node("u", None, "user", "q"),
        node("a", "u", "assistant", "part"),
        node("b", "a", "assistant", "more"),
        node("v", "a", "user", "why?"),
        node("w", "v", "assistant", "because"),
    )
    assert {turn.key: turn.parent for turn in projection.turns} == {"a": None, "b": None, "w": "a"}


def test_a_root_without_a_message_and_hidden_nodes_are_read(tmp_path: Path) -> None:
    hidden = {"is_visually_hidden_from_conversation": True}
    about = {"content_type": "user_editable_context", "user_profile": "I am Ana",
             "user_instructions": "be brief"}  # fmt: skip
    memory = {"content_type": "model_editable_context", "model_set_context": "likes tea",
              "repository": None}  # fmt: skip
    projection = one(
        tmp_path,
        root(),
        node("s0", "root", "system", "", weight=0.0, metadata=hidden),
        node("s1", "s0", "user", about, weight=0, metadata=hidden),
        node("s2", "s1", "assistant", memory),
        node("u", "s2", "user", "hello"),
        node("a", "u", "assistant", "hi"),
    )
    (turn,) = projection.turns
    assert [(m.role, m.text) for m in turn.query] == [
        ("system", "I am Ana\n\nbe brief"), ("system", "likes tea"), ("user", "hello"),
    ]  # fmt: skip
    assert turn.query[0].meta == {"chatgpt": {"weight": 0, "hidden": True}}
    assert turn.query[-1].source == "human"


def test_a_message_to_a_tool_is_a_call_and_the_tools_message_its_result(tmp_path: Path) -> None:
    failed = {"aggregate_result": {"status": "failed_with_in_kernel_exception"}}
    code = {"content_type": "code", "language": "python", "text": "1/0"}
    projection = one(
        tmp_path,
        node("u", None, "user", "q"),
        node("c1", "u", "assistant", '{"q": "x"}', recipient="browser.search"),
        node("c2", "c1", "assistant", code, recipient="python"),
        node("t2", "c2", "tool", {"content_type": "execution_output", "text": "boom"},
             name="python", metadata=failed),
        node("t1", "t2", "tool", {"content_type": "tether_browsing_display", "result": "page",
                                  "summary": "", "tether_id": 7}, name="browser"),
        node("t3", "t1", "tool", {"content_type": "system_error", "name": "E", "text": "gone"},
             name="bio"),
        node("a", "t3", "assistant", "done"),
    )  # fmt: skip
    (turn,) = projection.turns
    parts = [part for message in turn.reply for part in message.parts]
    assert parts == [
        ToolUse("call_c1", "browser.search", {"q": "x"}),
        ToolUse("call_c2", "python", {"language": "python", "text": "1/0"}),
        ToolResult("call_c2", "error", "boom"),
        OpaquePart({"kind": "chatgpt/aggregate_result", "value": failed["aggregate_result"]}),
        ToolResult("call_c1", "ok", "page"),
        OpaquePart({"kind": "chatgpt/tether_browsing_display", "value": {"tether_id": 7}}),
        ToolUse("call_t3", "bio", {}),
        ToolResult("call_t3", "error", "gone"),
        OpaquePart({"kind": "chatgpt/system_error", "value": {"name": "E"}}),
        Text("done"),
    ]
    assert len(sealed(projection)) == 1


def test_parts_mix_words_and_documents(tmp_path: Path) -> None:
    image = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-AbCdEf123456",
             "size_bytes": 5, "width": 1, "height": 1}  # fmt: skip
    sound = {"content_type": "audio_asset_pointer", "format": "wav",
             "asset_pointer": "sediment://file_00000000abcd"}  # fmt: skip
    live = {
        "content_type": "real_time_user_audio_video_asset_pointer",
        "audio_asset_pointer": sound,
        "frames_asset_pointers": ["sediment://file_frame0001"],
    }
    heard = {"content_type": "audio_transcription", "text": "spoken", "direction": "in"}
    parts = ["see ", image, heard, live, {"content_type": "new"}, "", None, 7]
    content = {"content_type": "multimodal_text", "parts": parts}
    projection = one(tmp_path, node("u", None, "user", content), node("a", "u", "assistant", "ok"))
    assert projection.turns[0].query[0].parts == (
        Text("see "),
        Media("image", "image/*", url="file-service://file-AbCdEf123456"),
        Text("spoken"),
        Media("audio", "audio/wav", url="sediment://file_00000000abcd"),
        Media("image", "image/*", url="sediment://file_frame0001"),
        OpaquePart({"kind": "chatgpt/new", "value": {"content_type": "new"}}),
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"content_type": "code", "language": "python", "text": "x"}, "```python\nx\n```"),
        ({"content_type": "code", "language": "unknown", "text": "x"}, "```\nx\n```"),
        ({"content_type": "tether_quote", "text": "words", "url": "u", "title": "t"}, "words"),
        ({"content_type": "sonic_webpage", "text": "page", "url": "u", "domain": "d"}, "page"),
        ({"content_type": "citable_code_output", "output_str": "3"}, "3"),
        ({"content_type": "system_error", "text": "e", "name": "n"}, "e"),
    ],
)
def test_every_type_of_content_says_its_words(
    tmp_path: Path, content: dict[str, Any], text: str
) -> None:
    assert answer(tmp_path, content).text == text


def test_thoughts_are_reasoning_and_a_recap_is_kept(tmp_path: Path) -> None:
    thoughts = {"content_type": "thoughts", "thoughts": [
        {"summary": "Plan", "content": "think", "finished": True},
        {"summary": "", "content": "", "chunks": ["a", "b"]}]}  # fmt: skip
    assert answer(tmp_path / "1", thoughts).parts == (Reasoning("Plan\nthink"), Reasoning("ab"))
    recap = {"content_type": "reasoning_recap", "content": "Thought for 3 s"}
    assert answer(tmp_path / "2", recap).parts == (
        OpaquePart({"kind": "chatgpt/reasoning_recap", "value": recap}),
    )


def test_a_screenshot_is_an_image(tmp_path: Path) -> None:
    shot = {"asset_pointer": "file-service://file-Shot12345678"}
    content = {"content_type": "computer_output", "computer_id": "7", "screenshot": shot}
    assert answer(tmp_path, content).parts[0] == Media(
        "image", "image/*", url=shot["asset_pointer"]
    )


def test_content_nobody_knows_is_kept_and_counted(tmp_path: Path) -> None:
    projection = one(
        tmp_path,
        node("u", None, "user", "q"),
        node("a", "u", "assistant", {"content_type": "hologram", "x": 1}),
        node("z", "a", "critic", "hm"),
        node("b", "z", "assistant", "ok"),
    )
    assert projection.unknown == {"content hologram": 1, "role critic": 1}
    assert projection.turns[0].reply[0].parts == (
        OpaquePart({"kind": "chatgpt/hologram", "value": {"content_type": "hologram", "x": 1}}),
    )


def test_what_stands_beside_an_answer_is_kept(tmp_path: Path) -> None:
    metadata = {"model_slug": "gpt-5", "finish_details": {"type": "stop"}, "citations": [{"n": 1}],
                "content_references": [{"u": 2}], "finished_duration_sec": 3}  # fmt: skip
    said = node("a", "u", "assistant", "ok", metadata=metadata, channel="final", end_turn=True)
    (turn,) = one(tmp_path, node("u", None, "user", "q"), said).turns
    assert (turn.model, turn.provider, turn.calls) == ("gpt-5", "openai", ())
    assert turn.reply[0].parts[1:] == (
        OpaquePart({"kind": "chatgpt/citations", "value": [{"n": 1}]}),
        OpaquePart({"kind": "chatgpt/content_references", "value": [{"u": 2}]}),
    )
    assert turn.reply[0].meta == {
        "chatgpt": {"channel": "final", "finish_details": {"type": "stop"},
                    "finished_duration_sec": 3}
    }  # fmt: skip


def test_times_are_seconds_with_a_fraction_or_nothing(tmp_path: Path) -> None:
    projection = one(
        tmp_path,
        node("u", None, "user", "q"),
        node("a", "u", "assistant", "ok"),
        node("v", "a", "user", "q", at=START + 1),
        node("b", "v", "assistant", "ok", at=START + 2.5),
        node("w", "b", "user", "q"),
        node("c", "w", "assistant", "ok"),
    )
    first, second, third = projection.turns
    assert first.started_at == "2026-05-28T20:26:40.250Z"
    assert (second.started_at, second.sealed_at) == (
        "2026-05-28T20:26:41.250Z", "2026-05-28T20:26:42.750Z",
    )  # fmt: skip
    assert third.started_at == second.sealed_at


def test_a_turn_without_an_end_is_interrupted_and_open_where_it_was_left(tmp_path: Path) -> None:
    projection = one(
        tmp_path,
        node("u", None, "user", "q"),
        node("a", "u", "assistant", "half", status="in_progress"),
        node("a2", "u", "assistant", "cut", metadata={"finish_details": {"type": "interrupted"}}),
        node("v", "a2", "user", "and?"),
    )
    assert {turn.key: (turn.outcome, turn.open) for turn in projection.turns} == {
        "a": ("interrupted", False), "a2": ("interrupted", False), "v": ("interrupted", True),
    }  # fmt: skip


def test_the_files_of_an_export_are_records_and_named_parts(tmp_path: Path) -> None:
    image = {
        "content_type": "image_asset_pointer",
        "asset_pointer": "file-service://file-AbCdEf123456",
    }
    attached = [{"id": "file-Doc123456789", "name": "a.pdf", "mime_type": "application/pdf"},
                {"id": "file-AbCdEf123456", "name": "b.png", "mimeType": "image/png"}]  # fmt: skip
    content = {"content_type": "multimodal_text", "parts": [image, "look"]}
    nodes = (node("u", None, "user", content, metadata={"attachments": attached}),
             node("a", "u", "assistant", "ok"))  # fmt: skip
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as export:
        export.writestr("conversations.json", orjson.dumps([conversation(*nodes)]))
        export.writestr("file-AbCdEf123456-b.png", b"\x89PNG")
        export.writestr("sub/file-Doc123456789-a.pdf", b"%PDF")
        export.writestr("file-Unrelated123.png", b"other")
        export.writestr("user.json", b"{}")
    importer = ChatGptImporter()
    (bundle,) = importer.open(archive)
    records = list(importer.read(bundle))
    assert [record.file for record in records] == [
        "conversations.json", "file-AbCdEf123456-b.png", "file-Doc123456789-a.pdf",
    ]  # fmt: skip
    (turn,) = importer.project(bundle, records).turns
    assert turn.query[0].parts == (
        Media("image", "image/png", url="file-service://file-AbCdEf123456",
              name="file-AbCdEf123456-b.png"),
        Text("look"),
        Media("file", "application/pdf", name="file-Doc123456789-a.pdf"),
    )  # fmt: skip
    assert turn.records == (0, 1, 2)
    assert list(files_of(turn.query[0])) == [
        TouchedFile("attached", "a.pdf"), TouchedFile("attached", "b.png"),
    ]  # fmt: skip
    check_importer(ChatGptImporter(), archive)


def test_split_lists_in_a_folder_or_a_zip_are_all_read(tmp_path: Path) -> None:
    nodes = (node("u", None, "user", "q"), node("a", "u", "assistant", "ok"))
    for number in range(3):
        write(
            tmp_path / "x",
            [conversation(*nodes, id=f"c{number}")],
            f"conversations-00{number}.json",
        )
    (tmp_path / "x/shared_conversations.json").write_text("[{}]")
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as export:
        for file in (tmp_path / "x").iterdir():
            export.write(file, f"export/{file.name}")
    for path in (tmp_path / "x", tmp_path / "x.zip"):
        assert sorted(bundle.id for bundle in ChatGptImporter().open(path)) == ["c0", "c1", "c2"]
        assert told(path, "c2").sessions[0].id == "c2"


def test_conversations_of_a_zip_are_unpacked_in_one_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = (node("u", None, "user", "q"), node("a", "u", "assistant", "ok"))
    file = write(tmp_path, [conversation(*nodes, id=f"c{n}") for n in range(50)])
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as export:
        export.write(file, file.name)
    importer = ChatGptImporter()
    bundles = list(importer.open(tmp_path / "x.zip"))
    opened: list[str] = []
    real = zipfile.ZipFile.open

    def counting(self: zipfile.ZipFile, name: str, *args: Any) -> Any:
        opened.append(name)
        return real(self, name, *args)

    monkeypatch.setattr(zipfile.ZipFile, "open", counting)
    assert [orjson.loads(next(importer.read(b)).data)["id"] for b in bundles] == [
        b.id for b in bundles
    ]
    assert len(opened) == 1


def test_an_unchanged_conversation_keeps_its_stamp_in_the_next_export(tmp_path: Path) -> None:
    def nodes() -> tuple[dict[str, Any], ...]:
        return node("u", None, "user", "q"), node("a", "u", "assistant", "ok")

    first = write(tmp_path / "1", [conversation(*nodes(), id="same")])
    second = write(
        tmp_path / "2", [conversation(*nodes(), id="new"), conversation(*nodes(), id="same")]
    )
    stamps = [{b.id: b.stamp for b in ChatGptImporter().open(path)} for path in (first, second)]
    assert stamps[0]["same"] == stamps[1]["same"]


def test_a_list_that_is_cut_off_gives_what_is_whole(tmp_path: Path) -> None:
    nodes = (node("u", None, "user", "q"), node("a", "u", "assistant", "ok"))
    whole = orjson.dumps([conversation(*nodes, id="c1"), conversation(*nodes, id="c2")])
    file = tmp_path / "conversations.json"
    file.write_bytes(whole[:-40])
    importer = ChatGptImporter()
    bundles = list(importer.open(file))
    assert [bundle.id.split("-")[0] for bundle in bundles] == ["c1", "broken"]
    assert importer.project(bundles[1], list(importer.read(bundles[1]))).broken == 1
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as export:
        export.write(file, file.name)
    data = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "cut.zip").write_bytes(data[: len(data) // 2])
    assert list(ChatGptImporter().open(tmp_path / "cut.zip")) == []


@pytest.mark.parametrize("size", [1, 7, 64, 1_000_000])
def test_elements_are_found_whatever_the_chunk(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told_of = [{"a": '{"[\\"', "b": [{"c": "}]"}]}, {}, {"d": "x" * 300 + "\\"}]
    data = b"\xef\xbb\xbf " + orjson.dumps(told_of, option=orjson.OPT_INDENT_2)
    (tmp_path / "f").write_bytes(data)
    monkeypatch.setattr(export_files, "_CHUNK_BYTES", size)
    with (tmp_path / "f").open("rb") as stream:
        found = list(elements(stream))
    assert [orjson.loads(piece) for _, piece in found] == told_of
    assert all(data[at : at + len(piece)] == piece for at, piece in found)


@pytest.mark.slow
def test_a_thread_of_ten_thousand_nodes_is_read(tmp_path: Path) -> None:
    nodes = [node("n0", None, "user", "q")]
    nodes += [
        node(f"n{n}", f"n{n - 1}", "assistant" if n % 2 else "user", "x") for n in range(1, 10_000)
    ]
    assert len(one(tmp_path, *nodes).turns) == 5_000


def test_nodes_that_lead_back_to_themselves_are_passed_over(tmp_path: Path) -> None:
    projection = one(
        tmp_path,
        node("u", None, "user", "q"),
        node("a", "u", "assistant", "ok"),
        node("x", "y", "user", "q"),
        node("y", "x", "assistant", "ok"),
        node("z", "z", "user", "self"),
        current_node="x",
    )
    assert [turn.key for turn in projection.turns] == ["a", "z"]
    assert projection.sessions[0].head == "z"


def test_what_another_tool_wrote_holds_nothing(tmp_path: Path) -> None:
    for name, data in {
        "conversations.json": b'[{"uuid": "x", "chat_messages": []}]',
        "a.json": b'{"messages": []}', "b.json": b"not json", "c.json": b"", "d.json": b"[[]]",
        "e.txt": b"{}", "f.zip": b"PK\x03\x04 nonsense",
    }.items():  # fmt: skip
        (tmp_path / name).write_bytes(data)
        assert list(ChatGptImporter().open(tmp_path / name)) == []
    assert list(ChatGptImporter().open(tmp_path)) == []
    assert list(ChatGptImporter().open(tmp_path / "missing")) == []


def test_one_reader_reads_one_export_after_the_other(tmp_path: Path) -> None:
    nodes = (node("u", None, "user", "q"), node("a", "u", "assistant", "ok"))
    importer = ChatGptImporter()
    first = next(iter(importer.open(write(tmp_path / "1", [conversation(*nodes, id="one")]))))
    second = next(iter(importer.open(write(tmp_path / "2", [conversation(*nodes, id="two")]))))
    assert list(importer.open(tmp_path / "missing.json")) == []
    assert b'"one"' in next(importer.read(first)).data
    assert b'"two"' in next(importer.read(second)).data
    write(tmp_path / "1", [conversation(*nodes, id="other")])
    assert [bundle.id for bundle in importer.open(tmp_path / "1")] == ["other"]
    with pytest.raises(OSError, match="any longer"):
        next(ChatGptImporter().read(first))


def test_details_are_those_of_the_conversation(tmp_path: Path) -> None:
    projection = one(
        tmp_path, node("u", None, "user", "q"), node("a", "u", "assistant", "ok"),
        default_model_slug="auto", gizmo_id="g-1", is_archived=True, plugin_ids=["p"],
        conversation_template_id="t", moderation_results=[], safe_urls=["u"], is_temporary=False,
    )  # fmt: skip
    assert projection.sessions[0].details == {
        "created_s": START, "updated_s": START, "model": "auto", "gizmo": "g-1", "archived": True,
        "plugins": ["p"], "template": "t", "safe_urls": ["u"],
    }  # fmt: skip


def test_nothing_that_makes_no_sense_raises(tmp_path: Path) -> None:
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "s", "content": "c"}]}
    shot = {"content_type": "computer_output", "screenshot": {"asset_pointer": "file-Shot12345678"}}
    attached = [{"id": "file-Doc123456789", "name": "a.pdf", "mime_type": "application/pdf"}]
    parts = ["x", {"content_type": "image_asset_pointer", "asset_pointer": "file-AbCdEf123456"}]
    content = {"content_type": "multimodal_text", "parts": parts}
    nodes = (
        root(),
        node("u", "root", "user", content, at=START, metadata={"attachments": attached}),
        node("h", "u", "assistant", thoughts),
        node("c", "h", "assistant", '{"q": 1}', recipient="browser"),
        node(
            "t", "c", "tool", shot, name="browser", metadata={"aggregate_result": {"status": "ok"}}
        ),
        node("a", "t", "assistant", "done", metadata={"citations": [{}], "model_slug": "m"}),
        node("b", "t", "assistant", "other"),
    )
    document = conversation(*nodes)
    importer = ChatGptImporter()
    (bundle,) = importer.open(write(tmp_path, [document]))
    for strange in mangled(document, 500):
        records = [RawRecord("conversations.json", 0, json.dumps(strange).encode())]
        sealed(importer.project(bundle, records))


def test_the_contract_holds(tmp_path: Path) -> None:
    nodes = (
        root(),
        node("u", "root", "user", "half"),
        node("c\x00", "u", "assistant", "nul \x00", recipient="t\x00"),
        node("a", "c\x00", "assistant", "x" * 20_000),
    )  # fmt: skip
    write(tmp_path, [conversation(*nodes), conversation(root(), id="empty")])
    text = (tmp_path / "conversations.json").read_bytes()
    (tmp_path / "conversations.json").write_bytes(text.replace(b"half", b"half \\ud83d"))
    assert len(check_importer(ChatGptImporter(), tmp_path)) == 1


def sealed(projection: Projection) -> list[Any]:
    return list(seal_drafts(projection, Principal("agent", "chatgpt")))
