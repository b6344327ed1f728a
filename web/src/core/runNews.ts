/**
 * One run as it is followed: what was asked, what is recorded of the reply, and the words that are on their way.
 * Values and rules, without a browser.
 *
 * A position is `step.epoch.offset`. What is not beyond the last one is a repeat, so that a cut of the connection or of
 * the server loses and doubles no word: the same news may be told again from any position on.
 */

import type { MessageDocument, RunDocument } from "../api/types.ts";
import { compare } from "./live.ts";

/** An event of a run. */
export interface StepDocument {
  kind: string;
  seq: number;
  reason: string;
  message: MessageDocument | null;
  call: string | null;
}

/** Text in progress. */
export interface ChunkDocument {
  kind: "text" | "reasoning" | "tool" | "restart";
  seq: number;
  text: string;
  tool: string | null;
}

export type RunNews =
  | { event: "step"; id: string; data: StepDocument }
  | { event: "chunk"; id: string; data: ChunkDocument }
  | { event: "end"; id: string; data: RunDocument }
  | { event: "problem"; id: string; data: unknown };

/** Words that a model has sent and that are not recorded yet. */
export interface PartialReply {
  seq: number;
  epoch: number;
  text: string;
  /** Characters before the text that are not kept here. */
  textCut: number;
  reasoning: string;
  reasoningCut: number;
  /** Calls that the model is writing, by their names. */
  tools: readonly string[];
  /** Whether its first words were sent before this page listened. */
  isLate: boolean;
}

export interface FollowedRun {
  run: string;
  position: string;
  query: readonly MessageDocument[];
  /** Recorded messages of the reply; their numbers are the steps that recorded them. */
  reply: readonly MessageDocument[];
  /** Calls that were started and have not ended. */
  running: readonly string[];
  partial: PartialReply | null;
  /** What it waits for, if it is parked. */
  parked: string | null;
  /** What became of it, once it is finished. */
  end: RunDocument | null;
  problem: unknown;
}

/** Of words in progress the newest are kept: a reply of ten megabytes must not fill the page. */
export const PARTIAL_CHARS_MAX = 48_000;

export function followed(run: string): FollowedRun {
  return {
    run,
    position: "",
    query: [],
    reply: [],
    running: [],
    partial: null,
    parked: null,
    end: null,
    problem: null,
  };
}

/** The run after one more piece of news. */
export function learn(run: FollowedRun, news: RunNews): FollowedRun {
  switch (news.event) {
    case "end":
      return { ...run, end: news.data, running: [], parked: null };
    case "problem":
      return { ...run, problem: news.data ?? {} };
    case "step":
      return isRepeat(run, news) ? run : recorded({ ...run, position: news.id }, news.data);
    case "chunk":
      return isRepeat(run, news) ? run : spoken({ ...run, position: news.id }, news.id, news.data);
  }
}

/** The tool calls of the recorded reply. */
export function countCalls(run: FollowedRun): number {
  return run.reply
    .flatMap((message) => message.parts)
    .filter((part) => part.kind === "tool_use" && run.reply.length > 0).length;
}

function isRepeat(run: FollowedRun, news: RunNews): boolean {
  return run.position !== "" && compare(news.id, run.position) <= 0;
}

function recorded(run: FollowedRun, step: StepDocument): FollowedRun {
  const next = { ...run, partial: run.partial && run.partial.seq > step.seq ? run.partial : null };
  const message = step.message ? { ...step.message, number: step.seq } : null;
  switch (step.kind) {
    case "run.started":
    case "message.appended":
      return message ? { ...next, query: [...run.query, message] } : next;
    case "tool_call.started":
      return step.call ? { ...next, running: [...run.running, step.call] } : next;
    case "tool_call.finished":
      return {
        ...next,
        running: run.running.filter((call) => call !== step.call),
        reply: message ? [...run.reply, message] : run.reply,
      };
    case "run.parked":
      return { ...next, parked: step.reason ?? "" };
    case "run.unparked":
      return { ...next, parked: null };
    default:
      return message ? { ...next, reply: [...run.reply, message] } : next;
  }
}

function spoken(run: FollowedRun, id: string, chunk: ChunkDocument): FollowedRun {
  const [, epoch = 0, offset = 0] = id.split(".").map(Number);
  const before = run.partial;
  const isSame = before !== null && before.seq === chunk.seq && before.epoch === epoch;
  const isFresh = !isSame || chunk.kind === "restart";
  const partial: PartialReply = isFresh
    ? {
        seq: chunk.seq,
        epoch,
        text: "",
        textCut: 0,
        reasoning: "",
        reasoningCut: 0,
        tools: [],
        // A restart begins the text, wherever it comes.
        isLate: chunk.kind !== "restart" && before?.seq !== chunk.seq && offset > 1,
      }
    : before;
  return { ...run, partial: added(partial, chunk) };
}

function added(partial: PartialReply, chunk: ChunkDocument): PartialReply {
  switch (chunk.kind) {
    case "text": {
      const [text, cut] = newest(partial.text + chunk.text);
      return { ...partial, text, textCut: partial.textCut + cut };
    }
    case "reasoning": {
      const [reasoning, cut] = newest(partial.reasoning + chunk.text);
      return { ...partial, reasoning, reasoningCut: partial.reasoningCut + cut };
    }
    case "tool":
      return chunk.tool && partial.tools.at(-1) !== chunk.tool
        ? { ...partial, tools: [...partial.tools, chunk.tool] }
        : partial;
    case "restart":
      return partial;
  }
}

/** The end of a text that became too long, from a line on where there is one, and how much was left out. */
function newest(text: string): [string, number] {
  // Twice as much may gather before it is cut, so that a long text is not copied for every word.
  if (text.length <= 2 * PARTIAL_CHARS_MAX) return [text, 0];
  let from = text.length - PARTIAL_CHARS_MAX;
  const line = text.indexOf("\n", from);
  if (line >= 0 && line < from + PARTIAL_CHARS_MAX / 4) from = line + 1;
  else if (/[\udc00-\udfff]/.test(text[from] ?? "")) from++;
  return [text.slice(from), from];
}
