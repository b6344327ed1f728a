import { useMemo, useState } from "react";
import { count } from "../../core/format.ts";
import { beginning, countLines, piecesOf } from "../text.ts";
import { Whole } from "../Whole.tsx";
import type { Call } from "./call.ts";
import { answerOf } from "./outputs.ts";

const LINES_FIRST = 24;
const CHARS_FIRST = 6_000;

/** What a tool answered, as text: its beginning, the rest when asked for. */
export function Output(props: { call: Call; label?: string }) {
  const { call } = props;
  const text = useMemo(() => answerOf(call).replace(/\s+$/, ""), [call]);
  const [isAll, setAll] = useState(false);
  const first = useMemo(() => beginning(text, LINES_FIRST, CHARS_FIRST), [text]);
  if (call.state === "unanswered") return <p className="note">No result of this call was recorded.</p>;
  if (text === "") return <p className="note">It returned no text.</p>;
  const shown = isAll ? text : first.text;
  const rest = countLines(text) - countLines(first.text);
  return (
    <div className="output">
      <pre
        className={call.state === "failed" ? "failed" : undefined}
        tabIndex={0}
        role="group"
        aria-label={props.label ?? "What it returned"}
      >
        {piecesOf(shown).map((piece, index) => (
          <span key={index} className="piece">
            {piece}
          </span>
        ))}
      </pre>
      {first.isCut && !isAll ? (
        <button type="button" className="button quiet" onClick={() => setAll(true)}>
          {rest > 0 ? `Show ${count(rest, "more line")}` : "Show the rest"}
        </button>
      ) : null}
      {call.isCut && call.outputAt && (isAll || !first.isCut) ? (
        <Whole at={call.outputAt} noun="answer" />
      ) : null}
    </div>
  );
}
