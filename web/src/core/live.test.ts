import fc from "fast-check";
import { expect, test } from "vitest";
import { hear, type LiveState, SILENT, textOf, type Words } from "./live.ts";

const word = (position: string, text: string, more: Partial<Words> = {}): Words => ({
  run: "r",
  session: "s",
  label: "main",
  seq: Number(position.split(".")[0]),
  position,
  kind: "text",
  text,
  tool: null,
  is_whole: false,
  ...more,
});

const after = (words: readonly Words[]): LiveState =>
  words.reduce((state, data) => hear(state, { event: "words", data }), SILENT);

const said = (state: LiveState): string => textOf(state.runs.get("r")!);

test("words are appended, repeats are not", () => {
  const words = [word("2.1.1", "four "), word("2.1.2", "degrees"), word("2.1.1", "four ")];
  expect(said(after(words))).toBe("four degrees");
});

test("a worker that took over begins the step anew", () => {
  expect(said(after([word("2.1.1", "four "), word("2.2.1", "five "), word("2.2.2", "degrees")]))).toBe(
    "five degrees",
  );
});

test("a new attempt takes the text back", () => {
  const words = [word("2.1.1", "wrong"), word("2.1.2", "", { kind: "restart" }), word("2.1.3", "right")];
  expect(said(after(words))).toBe("right");
});

test("what was recorded replaces what was streamed", () => {
  const words = [word("2.1.1", "fo"), word("3.0.0", "four degrees", { seq: 2, is_whole: true })];
  expect(said(after(words))).toBe("four degrees");
});

test("steps follow one another", () => {
  const words = [
    word("2.1.1", "I look."),
    word("3.0.0", "I look.", { seq: 2, is_whole: true }),
    word("5.1.1", "It is open."),
  ];
  expect(said(after(words))).toBe("I look.\n\nIt is open.");
});

test("a sealed turn ends its run", () => {
  const state = hear(after([word("2.1.1", "four")]), {
    event: "changed",
    data: { position: "1-2-3", turns: ["r"], sessions: [], runs: [], is_whole: false },
  });
  expect(state.runs.size).toBe(0);
});

test("a reader that joins or comes back at any moment has every word once", () => {
  const pieces = fc.array(fc.string({ minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(pieces, fc.nat(30), fc.nat(30), (texts, cut, back) => {
      const words = texts.map((text, index) => word(`2.1.${index + 1}`, text));
      const at = Math.min(cut, words.length);
      const whole = texts.slice(0, at).join("");
      // A connection broke after some words; the next one sends the text so far, then goes on.
      const again = at ? [word(`2.1.${at}`, whole, { is_whole: true })] : [];
      const read = words.slice(0, Math.min(back, at));
      expect(said(after([...read, ...again, ...words.slice(at)]))).toBe(texts.join(""));
    }),
  );
});

test("a run that ended while no page listened is forgotten, one in progress is not", () => {
  const hello = (runs: string[]) => ({ position: "1-2-3", server: "a", runs });
  const state = after([word("2.1.1", "four")]);
  expect(hear(state, { event: "hello", data: hello([]) }).runs.size).toBe(0);
  expect(said(hear(state, { event: "hello", data: hello(["r"]) }))).toBe("four");
});
