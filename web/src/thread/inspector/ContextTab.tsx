import { count, figure, short, titled } from "../../core/format.ts";
import { Chip } from "../../parts/Chip.tsx";
import { Failure, Skeleton } from "../../parts/States.tsx";
import { visible } from "../text.ts";
import type { Context, Turn } from "../wire.ts";
import { useAbout } from "./useAbout.ts";

/** What the model saw: how much was read and written, and which messages stood in its context. */
export function ContextTab({ turn }: { turn: Turn }) {
  const context = useAbout("/turns/{revision}/context", { revision: turn.id });
  return (
    <>
      <TokenBar turn={turn} />
      {context.isPending ? (
        <Skeleton rows={5} label="Reading what the model saw" />
      ) : context.isError ? (
        <Failure error={context.error} retry={() => void context.refetch()} compact />
      ) : (
        <Seen context={context.data} />
      )}
    </>
  );
}

function TokenBar({ turn }: { turn: Turn }) {
  const use = turn.usage;
  if (!use || use.total === 0) return <p className="note">No token counts were recorded for this turn.</p>;
  const parts = [
    { name: "Read from cache", value: use.cached, tone: 2 },
    { name: "Read anew", value: use.input + use.cache_write, tone: 3 },
    { name: "Reasoning", value: use.reasoning, tone: 4 },
    { name: "Written", value: Math.max(0, use.output - use.reasoning), tone: 1 },
  ].filter((part) => part.value > 0);
  const sum = parts.reduce((total, part) => total + part.value, 0);
  return (
    <>
      <h3>
        Tokens <span>{figure(use.total)}</span>
      </h3>
      <div className="token-bar" aria-hidden="true">
        {parts.map((part) => (
          <i
            key={part.name}
            className={`tone-${part.tone}`}
            style={{ flexGrow: Math.max(part.value / sum, 0.008) }}
          />
        ))}
      </div>
      <dl className="token-parts">
        {parts.map((part) => (
          <div key={part.name} className={`tone-${part.tone}`}>
            <dt>
              <i className="swatch" aria-hidden="true" /> {part.name}
            </dt>
            <dd title={figure(part.value)}>{short(part.value)}</dd>
          </div>
        ))}
      </dl>
    </>
  );
}

const MESSAGES_MAX = 30;

function Seen({ context }: { context: Context }) {
  return (
    <>
      {context.is_erased ? <p className="note">Parts of what the model saw were erased.</p> : null}
      {context.absence ? <p className="note">{sentence(context.absence)}</p> : null}
      {context.compaction ? (
        <p className="note">
          It began with a summary of {count(context.compaction.turns_summarized, "turn")}.
        </p>
      ) : null}
      {context.calls.map((call) => (
        <details key={call.number} className="model-call">
          <summary>
            <span>Call {call.number}</span>
            <span className="faint">{short(call.reported_tokens ?? call.estimated_tokens)} tokens</span>
            {call.is_same === true ? (
              <Chip kind="ok">proved</Chip>
            ) : call.is_same === false ? (
              <Chip kind="bad">differs</Chip>
            ) : null}
          </summary>
          <p className="note">
            {count(call.thread_turns, "turn")} of the thread
            {call.turns_left_out > 0 ? `, ${figure(call.turns_left_out)} left out` : ""};{" "}
            {count(call.tools.length, "tool")} offered.
          </p>
          {call.system.map((text, index) => (
            <p key={index} className="seen-message">
              <b>system</b> {visible(text)}
            </p>
          ))}
          {call.messages.slice(-MESSAGES_MAX).map((message, index) => (
            <p key={index} className={message.is_own ? "seen-message own" : "seen-message"}>
              <b>{message.role}</b> {visible(message.text)}
            </p>
          ))}
          {call.tools.length > 0 ? (
            <p className="seen-tools">{call.tools.map((tool) => visible(tool.name)).join(", ")}</p>
          ) : null}
        </details>
      ))}
      {context.thread.length > 0 ? (
        <>
          <h3>
            The thread up to here <span>{count(context.thread_total, "turn")}</span>
          </h3>
          <ol className="seen-thread">
            {context.thread.map((turn) => (
              <li key={turn.turn}>
                <span className="number">{turn.depth}</span>
                <span className="clip">
                  {visible(turn.kind === "compaction" ? "Summary" : titled(turn.title))}
                </span>
                <span className="faint">{turn.tokens === null ? "" : short(turn.tokens)}</span>
              </li>
            ))}
          </ol>
        </>
      ) : null}
      {context.manifest ? (
        <p className="note">
          Manifest <code>{context.manifest.replace(/^sha256:/, "").slice(0, 12)}</code>
        </p>
      ) : null}
    </>
  );
}

function sentence(text: string): string {
  const words = visible(text);
  return words.charAt(0).toUpperCase() + words.slice(1) + (/[.!?]$/.test(words) ? "" : ".");
}
