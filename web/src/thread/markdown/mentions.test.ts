import { readFileSync } from "node:fs";
import fc from "fast-check";
import { expect, test } from "vitest";
import { blockMentions, parseMarkdown, placedMentions, plainOf } from "./blocks.ts";
import { type Mention, mentionAt } from "./mentions.ts";

interface Case {
  case: string;
  text: string;
  mentions: (Mention & { quoted: boolean })[];
}

/** The cases that the tests of `turntree.conversations.mentions` read as well. */
const cases: Case[] = JSON.parse(
  readFileSync(new URL("../../../../tests/conversations/mentions.json", import.meta.url), "utf8"),
);

test.each(cases)("$case", ({ text, mentions }) => {
  const found = blockMentions(parseMarkdown(text), false);
  expect(found.map(({ mention, quoted }) => ({ ...mention, quoted }))).toEqual(mentions);
  // Where Markdown is shown as it was written, the same ones are badges.
  const placed = placedMentions(text);
  expect(placed.map(({ mention }) => mention)).toEqual(mentions.map(({ quoted: _, ...mention }) => mention));
  for (const { mention, start, end } of placed) {
    expect(mentionAt(text.slice(start))).toEqual({ mention, length: end - start });
  }
});

test("of two that are written alike, the one in code is none", () => {
  const written = "@[Ana](user:ana)";
  expect(placedMentions(`\`${written}\` ${written}`).map(({ start }) => start)).toEqual([written.length + 3]);
});

test("a mention in a link that cannot be followed stays a mention", () => {
  const [block] = parseMarkdown("[see @[Ana](user:ana)](notes.md)");
  const inlines = block?.is === "paragraph" ? block.of : [];
  expect(inlines.map(plainOf).join("")).toBe("see @Ana (notes.md)");
});

test("any text has its mentions where they are said to be", () => {
  const piece = fc.constantFrom(
    ..."@[Ana](user:ana)|@_[B [c]](agent:b)|@[|](user:x)|`|``|```\n|> |- |\n|\n\n|    |\\|[|]|(|)|<|>|*|a ".split(
      "|",
    ),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const text = pieces.join("");
      let passed = 0;
      for (const { mention, start, end } of placedMentions(text)) {
        expect(start).toBeGreaterThanOrEqual(passed);
        expect(text.slice(start, end)).toMatch(/^@_?\[[\s\S]*\]\((user|agent):\w+\)$/);
        expect(text.slice(start, end)).toContain(`(${mention.kind}:${mention.id})`);
        passed = end;
      }
    }),
    { numRuns: 500 },
  );
});
