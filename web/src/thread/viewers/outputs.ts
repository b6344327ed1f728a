/** What tools answered, without the wrapping that agents put around it. */
import { screenText } from "../text.ts";
import type { Call } from "./call.ts";

/** The text of an answer, as a terminal would show it. */
export function answerOf(call: Call): string {
  return screenText(unwrapped(call.output).text);
}

/** The exit code that an agent recorded, or null. */
export function exitCodeOf(call: Call): number | null {
  return unwrapped(call.output).exitCode;
}

const HEADER =
  /^(?:Chunk ID: .*\n|Wall time: .*\n|Process (?:exited with code (-?\d+)|running with session ID .*)\n|Exit code: (-?\d+)\n|Original token count: .*\n|Total output lines: .*\n)+(?:Output:\n)?/;

function unwrapped(output: string): { text: string; exitCode: number | null } {
  // Codex records its shell's answer as a document in a text, or as lines before the output.
  if (output.startsWith('{"') && output.length < 2_000_000) {
    try {
      const document = JSON.parse(output) as Record<string, unknown>;
      if (typeof document.output === "string") {
        const metadata = document.metadata as { exit_code?: unknown } | undefined;
        const code = metadata?.exit_code ?? document.exit_code;
        return { text: document.output, exitCode: typeof code === "number" ? code : null };
      }
    } catch {
      // No document after all.
    }
  }
  const header = HEADER.exec(output);
  if (header) return { text: output.slice(header[0].length), exitCode: numberOf(header[1] ?? header[2]) };
  const said = /^(?:Error: )?Exit code (-?\d+)\n?/.exec(output);
  return { text: said ? output.slice(said[0].length) : output, exitCode: numberOf(said?.[1]) };
}

const numberOf = (digits: string | undefined): number | null =>
  digits === undefined ? null : Number(digits);

export interface NumberedLine {
  number: number;
  text: string;
}

/** The lines of a file as an agent was shown them: `12→text` or `12\ttext`, or text without numbers. */
export function fileLines(output: string): NumberedLine[] {
  const text = output
    .replace(/^<file>\n?|\n?<\/file>$/g, "")
    .replace(/\n*<system-reminder>[\s\S]*?<\/system-reminder>\s*$/, "");
  const lines = (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
  const numbered = lines.map((line) => /^\s*(\d{1,7})(?:→|\t|\| ?)(.*)$/s.exec(line));
  const isNumbered = lines.length > 0 && numbered.slice(0, 3).every(Boolean);
  return lines.map((line, index) => {
    const match = isNumbered ? numbered[index] : null;
    return match ? { number: Number(match[1]), text: match[2] ?? "" } : { number: index + 1, text: line };
  });
}

export interface FoundFile {
  path: string;
  lines: NumberedLine[];
}

/** Matches by file where a search printed `path:12:text`, files where it printed paths; null for other answers. */
export function foundFiles(output: string): FoundFile[] | null {
  const files = new Map<string, FoundFile>();
  let others = 0;
  for (const line of output.split("\n")) {
    if (line.trim() === "" || line === "--") continue;
    const match = /^(.{1,300}?)[:-](\d{1,7})[:-](.*)$/s.exec(line);
    const path = match?.[1] ?? (/^\S{1,300}$/.test(line) && /[./]/.test(line) ? line : null);
    if (path === null) {
      // Agents begin with a count: "Found 3 files".
      if (!/^found \d+/i.test(line)) others++;
      continue;
    }
    const file = files.get(path) ?? { path, lines: [] };
    if (match) file.lines.push({ number: Number(match[2]), text: match[3] ?? "" });
    files.set(path, file);
  }
  return files.size === 0 || others > files.size ? null : [...files.values()];
}

export interface Step {
  text: string;
  state: "done" | "now" | "open" | "dropped";
}

/** The steps of a plan, under any name that an agent has for them. */
export function stepsOf(args: Record<string, unknown>): Step[] {
  const list = [args.todos, args.plan, args.items, args.tasks].find(Array.isArray) as unknown[] | undefined;
  return (list ?? []).flatMap((one) => {
    if (typeof one === "string") return [{ text: one, state: "open" as const }];
    if (typeof one !== "object" || one === null) return [];
    const { content, step, description, title, text, status } = one as Record<string, unknown>;
    const words = [content, step, description, title, text].find((value) => typeof value === "string");
    return typeof words === "string" ? [{ text: words, state: STATES[String(status)] ?? "open" }] : [];
  });
}

const STATES: Record<string, Step["state"]> = {
  completed: "done",
  done: "done",
  in_progress: "now",
  inProgress: "now",
  active: "now",
  cancelled: "dropped",
  canceled: "dropped",
};

/** A document in a text laid out for reading; other text as it is. */
export function readable(value: unknown): string {
  if (typeof value !== "string") return JSON.stringify(value, null, 2) ?? "";
  const trimmed = value.trimStart();
  if (!/^[[{]/.test(trimmed) || value.length > 400_000) return value;
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
}
