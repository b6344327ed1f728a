import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Block, type Inline, parseMarkdown, plainOf, portionsOf, webAddress } from "./blocks.ts";

const words = (blocks: Block[]): string => JSON.stringify(blocks);
const inlines = (blocks: Block[]): Inline[] =>
  blocks.flatMap((block) => ("of" in block && block.is !== "quote" ? (block.of as Inline[]) : []));

/** Fragments that open something, so that random texts nest and break often. */
const fragment = fc.constantFrom(
  "> ",
  ">",
  "- ",
  "* ",
  "1. ",
  "```",
  "~~~",
  "`",
  "**",
  "*",
  "_",
  "__",
  "~~",
  "[",
  "](",
  ")",
  "![",
  "<",
  "</",
  ">",
  "<!--",
  "|",
  "|-|",
  "\n",
  "\n\n",
  "    ",
  "\t",
  "# ",
  "===",
  "---",
  "[a]: b",
  "http://a.b",
  "www.x.y",
  "a@b.c",
  "\\",
  "\u202e",
  "\0",
  "javascript:alert(1)",
  "data:text/html,x",
  "é",
  "🙂",
  "word ",
);

describe("Markdown", () => {
  test("random nests of marks never throw and lose no word", () => {
    fc.assert(
      fc.property(fc.array(fragment, { maxLength: 120 }), (parts) => {
        const text = parts.join("");
        const blocks = parseMarkdown(text);
        if (text.includes("word")) expect(words(blocks)).toContain("word");
      }),
      { numRuns: 400 },
    );
  });

  test("any text at all is read", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary", maxLength: 400 }), (text) =>
        Array.isArray(parseMarkdown(text)),
      ),
    );
  });

  test("no link leads anywhere but to http and https", () => {
    fc.assert(
      fc.property(fc.array(fragment, { maxLength: 60 }), (parts) => {
        for (const href of words(parseMarkdown(parts.join(""))).matchAll(/"href":"([^"]*)"/g))
          expect(href[1]).toMatch(/^https?:\/\//);
      }),
      { numRuns: 300 },
    );
    for (const href of [
      "javascript:alert(1)",
      "JaVaScRiPt:x",
      "data:text/html,x",
      "file:///etc/passwd",
      "//evil.example",
      "https://a:b@bank.example",
    ])
      expect(webAddress(href)).toBeNull();
    expect(webAddress("https://аpple.com/")?.host).toBe("xn--pple-43d.com");
  });

  test("a remote image is a link, a local one is words", () => {
    expect(inlines(parseMarkdown("![a cat](https://x.example/c.png)"))).toEqual([
      { is: "image", href: "https://x.example/c.png", host: "x.example", text: "a cat" },
    ]);
    expect(inlines(parseMarkdown("![a cat](data:image/png;base64,AA)")).map(plainOf)).toEqual([
      "[image: a cat]",
    ]);
  });

  test("a tag is text", () => {
    expect(parseMarkdown("<script>alert(1)</script>")).toEqual([
      { is: "plain", text: "<script>alert(1)</script>" },
    ]);
  });

  test("lists, tasks, tables and code become what they are", () => {
    const blocks = parseMarkdown(
      "# T\n\n- [x] done\n- [ ] open\n\n3. c\n\n| a | b |\n|:-|-:|\n| 1 | `2` |\n\n```ts title=x\nlet a\n```",
    );
    expect(blocks.map((block) => block.is)).toEqual(["heading", "list", "list", "table", "code"]);
    expect(blocks[1]).toMatchObject({ start: null, items: [{ done: true }, { done: false }] });
    expect(blocks[2]).toMatchObject({ start: 3 });
    expect(blocks[3]).toMatchObject({ head: [{ align: "left" }, { align: "right" }] });
    expect(blocks[4]).toEqual({ is: "code", lang: "ts title=x", text: "let a" });
  });

  test("a path in a link is said, not hidden", () => {
    expect(inlines(parseMarkdown("[the cart](src/cart.ts)")).map(plainOf)).toEqual([
      "the cart (src/cart.ts)",
    ]);
  });

  test("portions join to the whole text and end outside of code", () => {
    const text = `${"para\n\n".repeat(3000)}\`\`\`\n${"code\n\n".repeat(3000)}\`\`\`\n\nend`;
    const portions = portionsOf(text);
    expect(portions.length).toBeGreaterThan(2);
    expect(portions.join("\n")).toBe(text);
    expect(portions.filter((portion) => (portion.match(/```/g)?.length ?? 0) % 2 === 1)).toEqual([]);
  });
});

describe("Markdown of a hostile size", () => {
  const hostile: Record<string, (size: number) => string> = {
    quotes: (n) => ">".repeat(n),
    "spaced quotes": (n) => "> ".repeat(n / 2),
    numbers: (n) => "1. ".repeat(n / 3),
    dashes: (n) => "- ".repeat(n / 2),
    brackets: (n) => "[".repeat(n),
    images: (n) => "![".repeat(n / 2),
    links: (n) => "[a](".repeat(n / 4),
    emphasis: (n) => "_a_".repeat(n / 3),
    stars: (n) => "**a *".repeat(n / 5),
    tildes: (n) => "~a~".repeat(n / 3),
    ticks: (n) => "`a".repeat(n / 2),
    tags: (n) => "<a ".repeat(n / 3),
    comments: (n) => "<!-- ".repeat(n / 5),
    fences: (n) => "```\n".repeat(n / 4),
    "one line": (n) => "a".repeat(n),
    "lines of items": (n) => "- a\n\n".repeat(n / 5),
    "lazy quotes": (n) => ">a\nb\n".repeat(n / 5),
    tables: (n) => "a | b\n- | -\n".repeat(n / 12),
    backslashes: (n) => "\\".repeat(n),
  };
  test.each(Object.keys(hostile))(
    "%s: ten times the text takes about ten times as long",
    { timeout: 60_000 },
    (name) => {
      const make = hostile[name] as (size: number) => string;
      const took = (text: string): number => {
        const begin = process.cpuUsage();
        parseMarkdown(text);
        return process.cpuUsage(begin).user / 1000;
      };
      const small = make(40_000);
      const large = make(400_000);
      parseMarkdown(small);
      // A square would be 100 times; the floor keeps the clock's grain out of the ratio. The time is that of this
      // process: a neighbour on the machine takes none of it. Collecting garbage can spoil a round, not all.
      let ratio = Number.POSITIVE_INFINITY;
      for (let round = 0; round < 6 && ratio >= 45; round++) {
        ratio = Math.min(ratio, took(large) / Math.max(took(small), 4));
      }
      expect(ratio).toBeLessThan(45);
    },
  );

  test("ten megabytes in one line are shown", () => {
    const text = "x".repeat(10_000_000);
    expect(parseMarkdown(text)).toEqual([{ is: "plain", text }]);
  });
});
