import { Wrench } from "lucide-react";
import { useMemo } from "react";
import { CodeText } from "../code/Code.tsx";
import { Whole } from "../Whole.tsx";
import type { Call } from "./call.ts";
import { Output } from "./Output.tsx";
import { readable } from "./outputs.ts";
import type { Viewer } from "./viewer.ts";

/** Any other tool: what it was given and what it answered, as documents. */
export const other: Viewer = {
  matches: () => true,
  icon: Wrench,
  verb: (call) => call.tool.replace(/^mcp__(.+?)__/, "$1: ").replace(/[_-]+/g, " "),
  what: (call) => call.about,
  Body: OtherBody,
};

function OtherBody({ call }: { call: Call }) {
  const output = useMemo(() => readable(call.output), [call]);
  return (
    <>
      <Values value={call.args} label="What the tool was given" />
      {call.isCut && !call.outputAt ? <Whole at={call.at} noun="call" /> : null}
      {call.state === "ok" && output !== call.output ? (
        <CodeText text={output} language="json" isWrapped label="What the tool returned" />
      ) : (
        <Output call={call} />
      )}
    </>
  );
}

/** Arguments as a document; short ones as names and values. */
export function Values(props: { value: unknown; label: string }) {
  const text = useMemo(() => readable(props.value), [props.value]);
  if (text === "" || text === "null" || text === "{}") return null;
  return <CodeText text={text} language="json" isWrapped label={props.label} />;
}
