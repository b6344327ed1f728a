/** Every viewer, the special ones first: the first that matches a call shows it. */
import type { Call } from "./call.ts";
import { command } from "./command.tsx";
import { edit } from "./edit.tsx";
import { other } from "./other.tsx";
import { plan } from "./plan.tsx";
import { question } from "./question.tsx";
import { read } from "./read.tsx";
import { search } from "./search.tsx";
import { subagent } from "./subagent.tsx";
import type { Viewer } from "./viewer.ts";
import { web } from "./web.tsx";

export const VIEWERS: readonly Viewer[] = [subagent, question, plan, edit, read, search, web, command, other];

export function viewerOf(call: Call): Viewer {
  return VIEWERS.find((viewer) => viewer.matches(call)) ?? other;
}
