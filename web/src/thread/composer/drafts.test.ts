import { expect, test } from "vitest";
import { DRAFT_CHARS_MAX, type DraftStorage, keepDraft, readDraft } from "./drafts.ts";

function storage(start = ""): DraftStorage & { kept: string } {
  return {
    kept: start,
    getItem() {
      return this.kept || null;
    },
    setItem(_, value) {
      this.kept = value;
    },
    removeItem() {
      this.kept = "";
    },
  };
}

test("a draft is kept for its place", () => {
  const kept = storage();
  keepDraft(kept, "/s/main", "half a sentence");
  keepDraft(kept, "/s/other", "another");
  expect(readDraft(kept, "/s/main")).toBe("half a sentence");
  keepDraft(kept, "/s/main", "");
  expect(readDraft(kept, "/s/main")).toBe("");
  expect(readDraft(kept, "/s/other")).toBe("another");
});

test("a text that is too long is not kept in part", () => {
  const kept = storage();
  keepDraft(kept, "/s/main", "x".repeat(DRAFT_CHARS_MAX + 1));
  expect(readDraft(kept, "/s/main")).toBe("");
});

test("what is kept is bounded, and the newest stay", () => {
  const kept = storage();
  for (let number = 0; number < 40; number++) keepDraft(kept, `/s/${number}`, "x".repeat(DRAFT_CHARS_MAX));
  expect(kept.kept.length).toBeLessThan(410_000);
  expect(readDraft(kept, "/s/39")).toHaveLength(DRAFT_CHARS_MAX);
  expect(readDraft(kept, "/s/0")).toBe("");
});

test("what is no list of drafts is none", () => {
  for (const text of ["{", "7", '{"a":1}', '[1,["a"]]']) expect(readDraft(storage(text), "a")).toBe("");
});
