import { expect, test } from "vitest";
import { storage } from "../../core/storage.fixture.ts";
import { DRAFT_CHARS_MAX, type DraftStore, keepDraft, readDraft } from "./drafts.ts";

function store(person = "ana", kept = storage()): DraftStore & { storage: ReturnType<typeof storage> } {
  return { storage: kept, name: "drafts", person };
}

test("a draft is kept for its place", () => {
  const own = store();
  keepDraft(own, "/s/main", "half a sentence");
  keepDraft(own, "/s/other", "another");
  expect(readDraft(own, "/s/main")).toBe("half a sentence");
  keepDraft(own, "/s/main", "");
  expect(readDraft(own, "/s/main")).toBe("");
  expect(readDraft(own, "/s/other")).toBe("another");
});

test("the next person who logs in does not find it", () => {
  const own = store();
  keepDraft(own, "/s/main", "what only I should read");
  const next = store("mia", own.storage);
  expect(readDraft(next, "/s/main")).toBe("");
  keepDraft(next, "/s/main", "mine");
  expect(readDraft(own, "/s/main")).toBe("");
});

test("a text that is too long is not kept in part", () => {
  const own = store();
  keepDraft(own, "/s/main", "x".repeat(DRAFT_CHARS_MAX + 1));
  expect(readDraft(own, "/s/main")).toBe("");
});

test("what is kept is bounded, and the newest stay", () => {
  const own = store();
  for (let number = 0; number < 40; number++) keepDraft(own, `/s/${number}`, "x".repeat(DRAFT_CHARS_MAX));
  expect(own.storage.chars()).toBeLessThan(410_000);
  expect(readDraft(own, "/s/39")).toHaveLength(DRAFT_CHARS_MAX);
  expect(readDraft(own, "/s/0")).toBe("");
});

test("what is no list of drafts is none", () => {
  for (const words of ["{", "7", '{"a":1}', '[1,["a"]]']) {
    const own = store();
    own.storage.setItem(own.name, `{"person":"ana","words":${words}}`);
    expect(readDraft(own, "a")).toBe("");
  }
});
