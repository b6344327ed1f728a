import { FileText } from "lucide-react";
import { useMemo } from "react";
import { count } from "../../core/format.ts";
import { languageOf } from "../code/languages.ts";
import { Diff } from "../diff/Diff.tsx";
import type { Row } from "../diff/rows.ts";
import { Whole } from "../Whole.tsx";
import { argument, type Call, COMMANDS, kindOf, pathOf } from "./call.ts";
import { Output } from "./Output.tsx";
import { answerOf, fileLines } from "./outputs.ts";
import type { Viewer } from "./viewer.ts";

/** A file that was read, with its line numbers. */
export const read: Viewer = {
  matches: (call) => kindOf(call) === "read",
  icon: FileText,
  verb: () => "Read",
  what,
  result: (call) =>
    call.state === "ok" && call.output ? count(fileLines(answerOf(call)).length, "line") : null,
  together: (calls) => {
    const files = new Set(calls.map(what)).size;
    return files === 1 ? `Read ${count(calls.length, "time")}` : `Read ${count(files, "file")}`;
  },
  Body: ReadBody,
};

function what(call: Call): string {
  return pathOf(call) || fileOfCommand(call) || call.about;
}

/** `cat src/a.ts` and `sed -n 1,80p src/a.ts` read a file too. */
function fileOfCommand(call: Call): string {
  const words = argument(call, COMMANDS).trim().split(/\s+/);
  const last = words.at(-1)?.replace(/^['"]|['"]$/g, "") ?? "";
  return words.length > 1 && /[./]/.test(last) && !last.startsWith("-") ? last : argument(call, COMMANDS);
}

function ReadBody({ call }: { call: Call }) {
  const change = useMemo(() => {
    const rows = fileLines(answerOf(call)).map(
      (line): Row => ({ op: " ", old: line.number, new: line.number, text: line.text, words: null }),
    );
    return { rows, added: 0, removed: 0 };
  }, [call]);
  if (call.state !== "ok" || call.output === "") return <Output call={call} />;
  return (
    <>
      <Diff
        change={change}
        language={languageOf(what(call))}
        label={`The lines that were read from ${what(call)}`}
        isWhole
      />
      {call.isCut && call.outputAt ? <Whole at={call.outputAt} noun="file" /> : null}
    </>
  );
}
