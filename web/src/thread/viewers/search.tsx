import { Search } from "lucide-react";
import { useMemo } from "react";
import { count } from "../../core/format.ts";
import { visible } from "../text.ts";
import { Whole } from "../Whole.tsx";
import { argument, type Call, COMMANDS, kindOf, PATTERNS, pathOf } from "./call.ts";
import { Output } from "./Output.tsx";
import { answerOf, type FoundFile, foundFiles } from "./outputs.ts";
import type { Viewer } from "./viewer.ts";

/** A search in files, with its matches by file. */
export const search: Viewer = {
  matches: (call) => kindOf(call) === "search",
  icon: Search,
  verb: (call) => (isList(call) ? "Listed" : "Searched"),
  what,
  result: (call) => {
    if (call.state !== "ok") return null;
    const files = foundFiles(answerOf(call));
    if (!files) return call.output.trim() === "" ? "no matches" : shortAnswer(call);
    const matches = files.reduce((sum, file) => sum + file.lines.length, 0);
    return matches > 0
      ? `${count(matches, "match", "matches")} in ${count(files.length, "file")}`
      : count(files.length, "file");
  },
  together: (calls) => `Searched ${count(calls.length, "time")}`,
  Body: SearchBody,
};

/** An answer of one short line is its own summary. */
function shortAnswer(call: Call): string | null {
  const text = answerOf(call).trim();
  return text.length <= 40 && !text.includes("\n") ? text : null;
}

function isList(call: Call): boolean {
  return (
    /^(ls|list|list_?dir(ectory)?)$/i.test(call.tool) || /^\s*(ls|tree)\b/.test(argument(call, COMMANDS))
  );
}

function what(call: Call): string {
  const pattern = argument(call, PATTERNS);
  const path = pathOf(call);
  if (pattern) return path ? `${pattern} in ${path}` : pattern;
  return path || argument(call, COMMANDS) || call.about;
}

const FILES_MAX = 60;

function SearchBody({ call }: { call: Call }) {
  const files = useMemo(() => (call.state === "ok" ? foundFiles(answerOf(call)) : null), [call]);
  if (!files || files.every((file) => file.lines.length === 0))
    return <Output call={call} label="What the search found" />;
  return (
    <div className="found">
      {files.slice(0, FILES_MAX).map((file) => (
        <Matches key={file.path} file={file} />
      ))}
      {files.length > FILES_MAX ? (
        <p className="note">and {count(files.length - FILES_MAX, "more file")}</p>
      ) : null}
      {call.isCut && call.outputAt ? <Whole at={call.outputAt} noun="answer" /> : null}
    </div>
  );
}

const LINES_MAX = 20;

function Matches({ file }: { file: FoundFile }) {
  return (
    <section>
      <p className="file-head">
        <code>{visible(file.path)}</code>
      </p>
      {file.lines.slice(0, LINES_MAX).map((line, index) => (
        <p key={index} className="match">
          <span className="number">{line.number}</span>
          <code className="clip">{visible(line.text.slice(0, 300))}</code>
        </p>
      ))}
      {file.lines.length > LINES_MAX ? (
        <p className="note">{count(file.lines.length - LINES_MAX, "more match", "more matches")}</p>
      ) : null}
    </section>
  );
}
