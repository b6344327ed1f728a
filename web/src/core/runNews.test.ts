import fc from "fast-check";
import { expect, test } from "vitest";
import type { MessageDocument } from "../api/types.ts";
import {
  type ChunkDocument,
  countCalls,
  type FollowedRun,
  followed,
  learn,
  PARTIAL_CHARS_MAX,
  type RunNews,
  type StepDocument,
} from "./runNews.ts";

const chunk = (id: string, text: string, more: Partial<ChunkDocument> = {}): RunNews => ({
  event: "chunk",
  id,
  data: { kind: "text", seq: Number(id.split(".")[0]), text, tool: null, ...more },
});

const message = (role: "user" | "assistant" | "tool", parts: Partial<MessageDocument["parts"][number]>[]) =>
  ({ number: 0, role, source: null, at: null, erased: false, parts }) as unknown as MessageDocument;

const step = (seq: number, kind: string, more: Partial<StepDocument> = {}): RunNews => ({
  event: "step",
  id: `${seq + 1}.0.0`,
  data: { kind, seq, reason: "", message: null, call: null, ...more },
});

const after = (news: readonly RunNews[], run: FollowedRun = followed("r")): FollowedRun =>
  news.reduce(learn, run);

const said = (run: FollowedRun): string => run.partial?.text ?? "";

test("words are appended, repeats are not", () => {
  const news = [chunk("2.1.1", "four "), chunk("2.1.2", "degrees"), chunk("2.1.1", "four ")];
  expect(said(after(news))).toBe("four degrees");
});

test("a worker that took over begins the step anew", () => {
  expect(said(after([chunk("2.1.1", "four "), chunk("2.2.1", "five")]))).toBe("five");
});

test("a new attempt takes the text back", () => {
  const news = [chunk("2.1.1", "wrong"), chunk("2.1.2", "", { kind: "restart" }), chunk("2.1.3", "right")];
  expect(said(after(news))).toBe("right");
});

test("what is recorded takes the place of what was streamed", () => {
  const run = after([
    step(0, "run.started", { message: message("user", [{ kind: "text", text: "how warm?" }]) }),
    chunk("2.1.1", "fo"),
    step(2, "model_call.finished", { message: message("assistant", [{ kind: "text", text: "four" }]) }),
  ]);
  expect(run.partial).toBeNull();
  expect(run.query).toHaveLength(1);
  expect(run.reply.map((one) => one.parts[0]?.text)).toEqual(["four"]);
  expect(run.reply[0]?.number).toBe(2);
  // A chunk of the recorded step that comes late is stale.
  expect(after([chunk("2.1.9", "ur")], run).partial).toBeNull();
});

test("a tool call runs from its start to its end", () => {
  const use = message("assistant", [{ kind: "tool_use", call_id: "c" }]);
  const begun = after([
    step(2, "model_call.finished", { message: use }),
    step(3, "tool_call.started", { call: "c" }),
  ]);
  expect(begun.running).toEqual(["c"]);
  expect(countCalls(begun)).toBe(1);
  const result = message("tool", [{ kind: "tool_result", call_id: "c" }]);
  const ended = after([step(4, "tool_call.finished", { call: "c", message: result })], begun);
  expect(ended.running).toEqual([]);
  expect(ended.reply).toHaveLength(2);
});

test("a parked run says what it waits for, until it goes on", () => {
  const parked = after([step(3, "run.parked", { reason: "an approval" })]);
  expect(parked.parked).toBe("an approval");
  expect(after([step(4, "run.unparked")], parked).parked).toBeNull();
});

test("one who comes late is told that the beginning is missing", () => {
  expect(after([chunk("2.1.900", "end")]).partial?.isLate).toBe(true);
  expect(after([chunk("2.1.1", "all")]).partial?.isLate).toBe(false);
});

test("of a text without end the newest is kept", () => {
  const news = Array.from({ length: 400 }, (_, n) => chunk(`2.1.${n + 1}`, `${n} `.padEnd(1_000, "x")));
  const run = after(news);
  expect(said(run).length).toBeLessThanOrEqual(2 * PARTIAL_CHARS_MAX);
  expect(said(run).endsWith("399 ".padEnd(1_000, "x"))).toBe(true);
  expect(said(run).length + run.partial!.textCut).toBe(400_000);
});

test("cut anywhere and resumed anywhere before that, every word is there once", () => {
  const pieces = fc.array(fc.string({ minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 30 });
  fc.assert(
    fc.property(pieces, fc.nat(30), fc.nat(30), (texts, cut, back) => {
      const news = texts.map((text, index) => chunk(`2.1.${index + 1}`, text));
      const at = Math.min(cut, news.length);
      expect(said(after([...news.slice(0, at), ...news.slice(Math.min(back, at))]))).toBe(texts.join(""));
    }),
  );
});
