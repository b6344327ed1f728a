/** A request to a person, in words: what is asked, by whom, and what an answer looks like. */

import { agentName } from "../core/agents.ts";
import { argument, type Call, COMMANDS, kindOf, namesOfEdit, pathOf } from "../thread/viewers/call.ts";

/** What the page knows of a request. */
export interface Request {
  id: string;
  kind: string;
  tool: string;
  origin: string;
  args: Record<string, unknown> | null;
  requested_by: string;
  label: string | null;
  question: Record<string, unknown> | null;
}

const COMMAND_NAMES = ["command", "cmd", "shell_command"] as const;

export type RequestKind = "command" | "change" | "question" | "call";

/** The call that waits, for the viewers of calls. */
export function callOf(request: Request): Call {
  return {
    id: request.id,
    tool: request.tool,
    args: request.args ?? {},
    about: "",
    state: "ok",
    output: "",
    isCut: false,
    at: { message: 0, part: 0 },
    outputAt: null,
    spawned: null,
  };
}

/** What a patch is told by; any other call that has a command is one, whatever is in its text. */
const PATCHES = "apply_patch";
const LINE_CHARS_MAX = 4_000;

export function kindOfRequest(request: Request): RequestKind {
  if (request.kind === "question") return "question";
  const call = callOf(request);
  if (request.tool !== PATCHES && commandOf(request) !== "") return "command";
  return kindOf(call) === "edit" ? "change" : "call";
}

export function commandOf(request: Request): string {
  const call = callOf(request);
  return kindOf(call) === "command" ? argument(call, COMMANDS) : argument(call, COMMAND_NAMES);
}

/** The arguments beside the command or the change: what is not seen could be what matters. */
export function otherArgs(request: Request): Record<string, unknown> {
  const args = request.args ?? {};
  const call = callOf(request);
  const names =
    kindOfRequest(request) === "change"
      ? namesOfEdit(call)
      : // A list of words is joined where it is shown, so it is shown again as it is.
        COMMANDS.filter((name) => typeof args[name] === "string" && args[name] === commandOf(request)).slice(
          0,
          1,
        );
  const isShown = names.every((name) => longestLine(String(args[name])) <= LINE_CHARS_MAX);
  if (kindOfRequest(request) === "change" && (names.length === 0 || !isShown)) return args;
  return Object.fromEntries(Object.entries(args).filter(([name]) => !names.includes(name)));
}

function longestLine(text: string): number {
  return text.split("\n").reduce((most, line) => Math.max(most, line.length), 0);
}

/** What has no width, or is a space of another kind, in a value of any shape: as ⟨200B⟩. */
export function exact<T>(value: T): T {
  if (typeof value === "string")
    return value.replace(/[\p{Cf}\p{Co}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, written) as T;
  if (Array.isArray(value)) return value.map(exact) as T;
  if (isRecord(value))
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [exact(name), exact(one)])) as T;
  return value;
}

function written(character: string): string {
  return `⟨${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

export function questionOf(request: Request): string {
  const { message } = request.question ?? {};
  return typeof message === "string" && message.trim() ? message : "It asks before it goes on.";
}

/** `agent:atlas for human:ana` is Atlas; another tool is called by its own name. */
export function askerOf(request: Request): string {
  if (request.origin !== "turntree") return agentName(request.origin);
  const id = request.requested_by.replace(/ for .*$/, "").replace(/^\w+:/, "");
  return id ? agentName(id) : "An agent";
}

/** One line that names it in a list. */
export function lineOf(request: Request): string {
  switch (kindOfRequest(request)) {
    case "command":
      return `Run ${commandOf(request).split("\n", 1)[0]}`;
    case "change":
      return `Write ${pathOf(callOf(request)) || "a file"}`;
    case "question":
      return questionOf(request);
    case "call":
      return `Call ${request.tool}`;
  }
}

export function headingOf(request: Request): string {
  const asker = askerOf(request);
  switch (kindOfRequest(request)) {
    case "command":
      return `May ${asker} run this command?`;
    case "change":
      return `May ${asker} change this file?`;
    case "question":
      return questionOf(request);
    case "call":
      return `May ${asker} call ${request.tool}?`;
  }
}

/** What was decided, as it is told to another who comes later. */
export function verdictOf(state: string, by: string | null): string {
  const who = by ? by.replace(/^\w+:/, "") : "Another person";
  switch (state) {
    case "approved":
    case "used":
      return `${who} already approved it`;
    case "edited":
      return `${who} already approved it, with changes`;
    case "rejected":
      return `${who} already said no`;
    case "answered":
      return `${who} already answered it`;
    case "expired":
      return "The request has expired";
    default:
      return "The request was withdrawn";
  }
}

export interface Field {
  name: string;
  title: string;
  about: string;
  type: "text" | "number" | "yes" | "choice";
  choices: readonly string[];
  isRequired: boolean;
  first: string | boolean;
}

/** The fields of a form; none where any text is an answer. */
export function fieldsOf(request: Request): Field[] {
  const { schema } = request.question ?? {};
  if (!isRecord(schema) || !isRecord(schema.properties)) return [];
  const required = Array.isArray(schema.required) ? schema.required : [];
  return Object.entries(schema.properties).flatMap(([name, value]) => {
    if (!isRecord(value)) return [];
    const choices = Array.isArray(value.enum) ? value.enum.map(String) : [];
    const isNumber = value.type === "number" || value.type === "integer";
    const type =
      value.type === "boolean" ? "yes" : choices.length > 0 ? "choice" : isNumber ? "number" : "text";
    const preset = value.default;
    return [
      {
        name,
        title: typeof value.title === "string" ? value.title : name,
        about: typeof value.description === "string" ? value.description : "",
        type,
        choices,
        isRequired: required.includes(name),
        first: type === "yes" ? preset === true : preset === undefined ? "" : String(preset),
      } satisfies Field,
    ];
  });
}

/** The answer that a filled form gives; null where something required is missing. */
export function answerOf(fields: readonly Field[], given: Record<string, string | boolean>): unknown {
  const answer: Record<string, unknown> = {};
  for (const field of fields) {
    const value = given[field.name] ?? field.first;
    if (typeof value === "boolean") answer[field.name] = value;
    else if (value.trim() === "") {
      if (field.isRequired) return null;
    } else if (field.type === "number") {
      if (Number.isNaN(Number(value))) return null;
      answer[field.name] = Number(value);
    } else answer[field.name] = value;
  }
  return answer;
}

/** The arguments that a text holds; null where it is no JSON object. */
export function argsOfText(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : null;
  } catch {
    return null;
  }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
