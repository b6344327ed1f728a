/**
 * What the stream has said so far: replies in progress and imports. Values and rules, without a browser.
 *
 * A position of words is `step.epoch.offset`. A message that is not beyond the last one of its run is a
 * repeat; another epoch of the same step begins its text anew. So no word is lost or doubled when
 * a connection or a server breaks and words are sent again.
 */

import type { Told } from "../api/runSources.ts";

export interface Hello {
  position: string;
  server: string;
  /** The runs in progress; a server for a team, whose stream carries no words, names none. */
  runs?: string[];
}

export interface ChangeSet {
  position: string;
  turns: string[];
  sessions: string[];
  runs: string[];
  /** Where something was said or erased, or participants changed; a server of an earlier release names none. */
  conversations?: string[];
  is_whole: boolean;
}

export interface Words {
  run: string;
  session: string;
  label: string;
  seq: number;
  position: string;
  kind: "text" | "reasoning" | "tool" | "restart";
  text: string;
  tool: string | null;
  is_whole: boolean;
}

export interface ImportJob {
  job: string;
  tool: string;
  done: number;
  total: number;
  turns: number;
  sessions: number;
  state: "waiting" | "running" | "finished" | "failed";
  error: string | null;
}

export type Message =
  | { event: "hello"; data: Hello }
  | { event: "changed"; data: ChangeSet }
  | { event: "words"; data: Words }
  | { event: "import"; data: ImportJob }
  /** The connection to the server came or went. */
  | { event: "link"; data: { isOpen: boolean } }
  /** All of it at once, for a tab that comes later. */
  | { event: "state"; data: LiveState }
  /** A run that this tab follows. */
  | { event: "run"; data: Told };

export interface LiveStep {
  seq: number;
  epoch: number;
  text: string;
  reasoning: string;
  tools: readonly string[];
}

export interface LiveRun {
  run: string;
  session: string;
  label: string;
  position: string;
  steps: readonly LiveStep[];
}

export interface LiveState {
  hello: Hello | null;
  isOpen: boolean;
  runs: ReadonlyMap<string, LiveRun>;
  /** By job and tool, in the order in which they were started. */
  jobs: ReadonlyMap<string, ImportJob>;
}

export const SILENT: LiveState = { hello: null, isOpen: false, runs: new Map(), jobs: new Map() };

/** The state after one more message. */
export function hear(state: LiveState, message: Message): LiveState {
  switch (message.event) {
    case "run":
      return state;
    case "state":
      return message.data;
    case "link":
      return state.isOpen === message.data.isOpen ? state : { ...state, isOpen: message.data.isOpen };
    case "hello": {
      const isSame = state.hello?.server === message.data.server;
      // Another server has other jobs; words are resumed by their positions.
      const jobs = isSame ? state.jobs : new Map<string, ImportJob>();
      const runs = message.data.runs ? kept(state.runs, message.data.runs) : state.runs;
      return { ...state, isOpen: true, hello: message.data, jobs, runs };
    }
    case "changed":
      return { ...state, runs: ended(state.runs, message.data.turns) };
    case "words":
      return { ...state, runs: spoken(state.runs, message.data) };
    case "import": {
      const jobs = new Map(state.jobs);
      jobs.set(`${message.data.job} ${message.data.tool}`, message.data);
      return { ...state, jobs };
    }
  }
}

/** What a run has said so far, its steps one after another. */
export function textOf(run: LiveRun): string {
  return run.steps
    .map((step) => step.text)
    .filter(Boolean)
    .join("\n\n");
}

/** Below, equal or above zero, as positions are ordered. */
export function compare(a: string, b: string): number {
  const left = a.split(".");
  const right = b.split(".");
  for (let i = 0; i < 3; i++) {
    const difference = Number(left[i] ?? 0) - Number(right[i] ?? 0);
    if (difference) return difference;
  }
  return 0;
}

/** No message tells what ended while no page listened. */
function kept(runs: LiveState["runs"], open: readonly string[]): LiveState["runs"] {
  const gone = [...runs.keys()].filter((run) => !open.includes(run));
  return ended(runs, gone);
}

function ended(runs: LiveState["runs"], turns: readonly string[]): LiveState["runs"] {
  if (!turns.some((turn) => runs.has(turn))) return runs;
  const left = new Map(runs);
  for (const turn of turns) left.delete(turn);
  return left;
}

function spoken(runs: LiveState["runs"], words: Words): LiveState["runs"] {
  const before = runs.get(words.run);
  if (before && compare(words.position, before.position) <= 0) return runs;
  const steps = [...(before?.steps ?? [])];
  let place = steps.findIndex((step) => step.seq >= words.seq);
  if (place < 0) place = steps.length;
  const known = steps[place]?.seq === words.seq ? steps[place] : undefined;
  const epoch = Number(words.position.split(".")[1]);
  const isFresh = !known || words.kind === "restart" || (!words.is_whole && known.epoch !== epoch);
  const step = isFresh ? { seq: words.seq, epoch, text: "", reasoning: "", tools: [] } : { ...known, epoch };
  steps.splice(place, known ? 1 : 0, added(step, words));
  const { run, session, label, position } = words;
  return new Map(runs).set(run, { run, session, label, position, steps });
}

function added(step: LiveStep, words: Words): LiveStep {
  switch (words.kind) {
    case "text":
      return { ...step, text: words.is_whole ? words.text : step.text + words.text };
    case "reasoning":
      return { ...step, reasoning: words.is_whole ? words.text : step.reasoning + words.text };
    case "tool":
      return words.tool && !step.tools.includes(words.tool)
        ? { ...step, tools: [...step.tools, words.tool] }
        : step;
    case "restart":
      return step;
  }
}
