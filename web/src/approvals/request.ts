/** A request to a person, in words: what is asked, by whom, and what an answer looks like. */

import { agentName } from "../core/agents.ts";
import { argument, type Call, COMMANDS, kindOf, pathOf } from "../thread/viewers/call.ts";

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

export function kindOfRequest(request: Request): RequestKind {
  if (request.kind === "question") return "question";
  const call = callOf(request);
  if (kindOf(call) === "edit") return "change";
  return argument(call, ["command", "cmd", "shell_command"]) !== "" ? "command" : "call";
}

export function commandOf(request: Request): string {
  return argument(callOf(request), COMMANDS);
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
      return `${who} approved it already`;
    case "edited":
      return `${who} approved it already, with changes`;
    case "rejected":
      return `${who} said no already`;
    case "answered":
      return `${who} answered it already`;
    case "expired":
      return "It waited too long and has expired";
    default:
      return "It is not asked any more";
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
