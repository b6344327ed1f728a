import { SquareTerminal } from "lucide-react";
import { CodeText } from "../code/Code.tsx";
import { argument, type Call, COMMANDS, kindOf } from "./call.ts";
import { Output } from "./Output.tsx";
import { answerOf, exitCodeOf } from "./outputs.ts";
import type { Viewer } from "./viewer.ts";

/** A command and what it printed. */
export const command: Viewer = {
  matches: (call) => kindOf(call) === "command",
  icon: SquareTerminal,
  verb: (call) =>
    call.tool === "BashOutput" ? "Read its output" : /^kill/i.test(call.tool) ? "Stopped" : "Ran",
  what: (call) => commandText(call).split("\n", 1)[0] ?? "",
  result: (call) => {
    const code = exitCodeOf(call);
    if (code !== null && code !== 0) return <span className="failed">exit code {code}</span>;
    return call.state === "ok" ? <span className="clip">{lastLine(answerOf(call))}</span> : null;
  },
  isOpen: (call) => (exitCodeOf(call) ?? 0) !== 0,
  Body: CommandBody,
};

function commandText(call: Call): string {
  return argument(call, COMMANDS) || argument(call, ["bash_id", "shell_id", "session_id"]) || call.about;
}

/** Tools that print much say last what came of it. */
function lastLine(text: string): string {
  const end = text.slice(-2_000).trimEnd();
  return end
    .slice(end.lastIndexOf("\n") + 1)
    .trim()
    .slice(0, 80);
}

function CommandBody({ call }: { call: Call }) {
  const text = commandText(call);
  return (
    <>
      {text.includes("\n") || text.length > 60 ? (
        <div className="command-text">
          <CodeText text={text} language="bash" isWrapped label="The command" />
        </div>
      ) : null}
      <Output call={call} label="What the command printed" />
    </>
  );
}
