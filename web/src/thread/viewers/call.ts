/** A tool call with its answer, and what can be read from its arguments, for every agent alike. */
import type { Part } from "../wire.ts";

export interface Call {
  /** Unique in its turn. */
  id: string;
  tool: string;
  args: unknown;
  /** One line by the server: the file, the command, the question. */
  about: string;
  state: "ok" | "failed" | "stopped" | "unanswered";
  output: string;
  isCut: boolean;
  /** Where the whole text is: message and part, for the arguments and for the output. */
  at: { message: number; part: number };
  outputAt: { message: number; part: number } | null;
  spawned: string | null;
}

export const PATHS = [
  "file_path",
  "filePath",
  "absolute_path",
  "notebook_path",
  "target_file",
  "relative_workspace_path",
  "path",
  "filename",
  "file",
  "dir_path",
  "target_directory",
  "directory",
  "paths",
  "files",
] as const;
export const COMMANDS = ["command", "cmd", "shell_command", "script", "chars"] as const;
export const PATTERNS = ["pattern", "query", "regex", "glob_pattern", "search_term", "q"] as const;
const OLD_TEXTS = ["old_string", "oldString", "old_str", "old_text"] as const;
const NEW_TEXTS = [
  "new_string",
  "newString",
  "new_str",
  "new_text",
  "content",
  "contents",
  "file_text",
  "code_edit",
  "new_source",
] as const;

export function callOf(use: Part, result: Part | null, at: Call["at"], outputAt: Call["outputAt"]): Call {
  const state =
    result === null
      ? "unanswered"
      : result.status === "ok"
        ? "ok"
        : result.status === "canceled" || result.status === "interrupted"
          ? "stopped"
          : "failed";
  return {
    id: use.call_id ?? `${at.message}.${at.part}`,
    tool: use.tool ?? "a tool",
    args: use.args,
    about: use.about ?? "",
    state,
    output: result?.output ?? result?.text ?? "",
    isCut: use.is_cut || result?.is_cut === true,
    at,
    outputAt,
    spawned: use.spawned ?? result?.spawned ?? null,
  };
}

export function argsOf(call: Call): Record<string, unknown> {
  const { args } = call;
  return typeof args === "object" && args !== null && !Array.isArray(args)
    ? (args as Record<string, unknown>)
    : {};
}

/** The first of these arguments that has a text, or texts in a list. */
export function argument(call: Call, names: readonly string[]): string {
  const args = argsOf(call);
  for (const name of names) {
    const value = args[name];
    if (typeof value === "string" && value.trim() !== "") return value;
    if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === "string"))
      return names === COMMANDS ? commandOf(value as string[]) : value.join(", ");
  }
  return "";
}

/** The program's text where a shell was given one, else the words with quotes where they need them. */
function commandOf(words: string[]): string {
  const shell = words[0]?.split("/").pop() ?? "";
  const isShell =
    /^(ba|z|fi|da)?sh$|^(powershell|pwsh|cmd)(\.exe)?$/.test(shell) &&
    /^(-l?c|\/c|-Command)$/.test(words[1] ?? "");
  if (isShell && words.length > 2) return words.slice(2).join(" ");
  return words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .join(" ");
}

export function pathOf(call: Call): string {
  return argument(call, PATHS);
}

export interface TextEdit {
  path: string;
  old: string;
  new: string;
}

/** What a call replaced by what; empty where it is no edit or where its texts are not in its arguments. */
export function editsOf(call: Call): TextEdit[] {
  const args = argsOf(call);
  const path = pathOf(call);
  const list = Array.isArray(args.edits)
    ? args.edits
    : Array.isArray(args.replacements)
      ? args.replacements
      : [args];
  return list.flatMap((one) => {
    if (typeof one !== "object" || one === null) return [];
    const next = firstText(one, NEW_TEXTS);
    const old = firstText(one, OLD_TEXTS) ?? "";
    return next === undefined ? [] : [{ path: firstText(one, PATHS) ?? path, old, new: next }];
  });
}

/** The names of the arguments that an edit of one file shows; empty where it is another kind of edit. */
export function namesOfEdit(call: Call): string[] {
  const args = argsOf(call);
  if (Array.isArray(args.edits) || Array.isArray(args.replacements) || patchOf(call) !== "") return [];
  return [PATHS, OLD_TEXTS, NEW_TEXTS].flatMap((names) => firstName(args, names) ?? []);
}

function firstText(values: object, names: readonly string[]): string | undefined {
  const name = firstName(values, names);
  return name === undefined ? undefined : (values as Record<string, string>)[name];
}

function firstName(values: object, names: readonly string[]): string | undefined {
  const known = values as Record<string, unknown>;
  return names.find((name) => typeof known[name] === "string");
}

/** The text of a patch in whichever argument holds it. */
export function patchOf(call: Call): string {
  const texts = [call.args, ...Object.values(argsOf(call))].flatMap((value) =>
    Array.isArray(value) ? value : [value],
  );
  for (const text of texts)
    if (typeof text === "string" && (text.includes("*** Begin Patch") || /^--- .+\n\+\+\+ /m.test(text)))
      return text;
  return "";
}

export type CallKind =
  | "read"
  | "edit"
  | "command"
  | "search"
  | "web"
  | "plan"
  | "subagent"
  | "question"
  | "other";

/** Names of tools by what they do, lower case without marks between words. */
const KINDS: Record<Exclude<CallKind, "other">, string> = {
  read: "read fsread readfile readfilev2 readmanyfiles readlints viewimage notebookread open view viewfile cat readmcpresource listmcpresources",
  edit: "edit fsedit fswrite fspatch multiedit write notebookedit applypatch patch replace writefile editfile editfilev2 searchreplace strreplace strreplaceeditor strreplacebasededittool createfile deletefile delete insertedit reapply editnotebook",
  command:
    "bash runtimeexec bashoutput killshell killbash shell localshell localshellcall execcommand writestdin shellcommand runshellcommand runterminalcmd runterminalcommandv2 terminal exec containerexec",
  search:
    "grep fsgrep fsglob fslist glob ls list find listdir listdirectory search searchfilecontent grepsearch ripgrep ripgreprawsearch filesearch globfilesearch codebasesearch semanticsearch toolsearch lsp",
  web: "netfetch webfetch websearch websearchcall fetch googlewebsearch browse openurl webrun",
  plan: "todowrite todoread updateplan writetodos exitplanmode enterplanmode taskcreate taskupdate tasklist taskget createplan plan",
  subagent:
    "task agent spawnagent delegatetoagent subagent waitagent sendinput closeagent taskoutput delegate",
  question: "askuserquestion askuser requestuserinput question askquestion",
};
const KIND_BY_NAME = new Map(
  Object.entries(KINDS).flatMap(([kind, names]) =>
    names.split(" ").map((name): [string, CallKind] => [name, kind as CallKind]),
  ),
);
const READS = /^\s*(?:cat|nl|head|tail|less|bat|sed\s+-n|wc)\s+[^|;&><]*$/;
const SEARCHES = /^\s*(?:rg|grep|egrep|ag|fd|find|ls|tree|git\s+grep)\b[^|;&>]*$/;

/** What a call does: by the tool's name, by its arguments where the name is not known. */
export function kindOf(call: Call): CallKind {
  if (call.spawned) return "subagent";
  const name = call.tool.replace(/[^A-Za-z0-9]/g, "").toLowerCase();
  const known = KIND_BY_NAME.get(name);
  if (
    known === "command" ||
    (known === undefined && argument(call, ["command", "cmd", "shell_command"]) !== "")
  ) {
    const command = argument(call, COMMANDS);
    if (command.includes("*** Begin Patch")) return "edit";
    return READS.test(command) ? "read" : SEARCHES.test(command) ? "search" : "command";
  }
  if (known !== undefined) return known;
  if (patchOf(call) !== "") return "edit";
  const edits = editsOf(call);
  return edits.length > 0 && edits.every((edit) => edit.path !== "") ? "edit" : "other";
}
