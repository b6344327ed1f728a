import { expect, test } from "vitest";
import { fromPost, toPost, typedMention, withMention, withoutGap } from "./mentionDraft.ts";

const ANA = { mention: "@[Ana Ruiz](user:ana)", name: "Ana Ruiz", id: "ana" };
const OTHER = { mention: "@[Ana Ruiz](user:ana2)", name: "Ana Ruiz", id: "ana2" };
const SHORT = { mention: "@[Ana](agent:anna)", name: "Ana", id: "anna" };

function choose(text: string, ...people: (typeof ANA)[]) {
  let draft = { text, chosen: [] as readonly { shown: string; mention: string }[] };
  for (const one of people) {
    const caret = draft.text.length;
    const typed = typedMention(draft.text, caret);
    if (!typed) throw new Error("nothing is typed");
    draft = withMention(draft, typed, caret, one).draft;
    draft = { ...draft, text: `${draft.text}@` };
  }
  return { ...draft, text: draft.text.slice(0, -1) };
}

test.each([
  ["Ask @", 5, ""],
  ["Ask @at", 7, "at"],
  ["@ana r", 6, "ana r"],
  ["(@at", 4, "at"],
  ["Ask @at and", 7, "at"],
])("in %j at %i the name %j is being typed", (text, caret, typed) => {
  expect(typedMention(text, caret)?.typed).toBe(typed);
});

test.each([
  ["no sign", 7],
  ["mail ana@example", 16],
  ["\\@at", 4],
  ["@[Ana](user:ana)", 16],
  ["@ana and three more words", 25],
  ["@ana\nnext", 9],
  ["@ then", 6],
])("in %j at %i no mention is being typed", (text, caret) => {
  expect(typedMention(text, caret)).toBeNull();
});

test("what is chosen is shown by its name and sent as a mention", () => {
  const draft = choose("Ask @an", ANA);
  expect(draft.text).toBe("Ask @Ana Ruiz ");
  expect(toPost(draft)).toBe("Ask @[Ana Ruiz](user:ana) ");
});

test("two of one name are told apart, and the longer of two names is meant", () => {
  const draft = choose("@a", ANA, OTHER, SHORT);
  expect(draft.text).toBe("@Ana Ruiz @Ana Ruiz (ana2) @Ana ");
  expect(toPost(draft)).toBe(`${ANA.mention} ${OTHER.mention} ${SHORT.mention} `);
});

test("a name that was changed is text, and so is an address", () => {
  const draft = choose("@a", SHORT);
  expect(toPost({ ...draft, text: "@Anas and me@Ana and @Ana." })).toBe(
    "@Anas and me@Ana and @[Ana](agent:anna).",
  );
});

test.each([
  "Ask @[Ana Ruiz](user:ana), please",
  "`@[Ana](user:ana)` is how",
  "@_[Ana](user:ana) wrote",
  "plain",
])("the draft %j means the same after a reload", (text) => {
  expect(toPost(fromPost(text))).toBe(text);
});

test("the space behind a mention gives way to what is typed there", () => {
  expect(withoutGap("@Ana ", "@Ana  ", 5, 6)).toEqual({ text: "@Ana ", caret: 5 });
  expect(withoutGap("@Ana ", "@Ana ,", 5, 6)).toEqual({ text: "@Ana,", caret: 5 });
  expect(withoutGap("@Ana ", "@Ana w", 5, 6)).toEqual({ text: "@Ana w", caret: 6 });
  expect(withoutGap("@Ana ", "@Ana  ", null, 6)).toEqual({ text: "@Ana  ", caret: 6 });
});
