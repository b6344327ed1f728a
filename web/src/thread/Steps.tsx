import { ChevronRight } from "lucide-react";
import { createContext, memo, useContext, useEffect, useState } from "react";
import type { CallGroup } from "./flow.ts";
import { Folds } from "./folds.ts";
import { visible } from "./text.ts";
import type { Call } from "./viewers/call.ts";
import { viewerOf } from "./viewers/index.ts";

const STATE_WORDS: Record<Call["state"], string> = {
  ok: "",
  failed: "failed",
  stopped: "stopped",
  unanswered: "no answer",
};
const WHAT_CHARS_MAX = 300;

/** The calls that run now, in a turn that is being written; null in one that is sealed. */
export const CallsAtWork = createContext<readonly string[] | null>(null);

/** Tool calls in a row. Reads and searches that follow one another are one line; what failed is open. */
export const Steps = memo(function Steps(props: { groups: CallGroup[] }) {
  return (
    <div className="steps">
      {props.groups.map((group) => {
        const first = group.calls[0]!;
        const viewer = viewerOf(first);
        const isTogether =
          group.calls.length > 1 && viewer.together && group.calls.every((call) => viewerOf(call) === viewer);
        return isTogether ? (
          <Together key={first.id} calls={group.calls} />
        ) : (
          group.calls.map((call) => <Step key={call.id} call={call} />)
        );
      })}
    </div>
  );
});

function Step({ call }: { call: Call }) {
  const viewer = viewerOf(call);
  const [isOpen, toggle] = useFold(call.state === "failed" || viewer.isOpen?.(call) === true);
  const { Body, icon: Icon } = viewer;
  const atWork = useContext(CallsAtWork);
  const isPending = atWork !== null && call.state === "unanswered";
  const state = isPending ? (atWork.includes(call.id) ? "running" : "next") : STATE_WORDS[call.state];
  return (
    <details className={`step ${isPending ? "pending" : call.state}`} open={isOpen} onToggle={toggle}>
      <summary>
        <Icon aria-hidden="true" />
        <span className="verb">{visible(viewer.verb(call))}</span>
        <span className="what clip">{visible(viewer.what(call).slice(0, WHAT_CHARS_MAX))}</span>
        <span className="result">
          {viewer.result?.(call)}
          {state ? <span className="state-word">{state}</span> : null}
        </span>
        <ChevronRight className="chevron" aria-hidden="true" />
      </summary>
      {isOpen ? <Body call={call} /> : null}
    </details>
  );
}

function Together({ calls }: { calls: Call[] }) {
  const viewer = viewerOf(calls[0]!);
  const [isOpen, toggle] = useFold(false);
  const Icon = viewer.icon;
  return (
    <details className="step together" open={isOpen} onToggle={toggle}>
      <summary>
        <Icon aria-hidden="true" />
        <span className="verb">{viewer.together?.(calls)}</span>
        <span className="what clip">
          {visible([...new Set(calls.map((call) => viewer.what(call)))].join(", ").slice(0, WHAT_CHARS_MAX))}
        </span>
        <span className="result" />
        <ChevronRight className="chevron" aria-hidden="true" />
      </summary>
      {isOpen ? calls.map((call) => <Step key={call.id} call={call} />) : null}
    </details>
  );
}

/** Open or closed: as the call suggests, as the keys of the page set all of them, or as it was clicked last. */
function useFold(isOpenFirst: boolean): [boolean, (event: React.ToggleEvent<HTMLDetailsElement>) => void] {
  const { tools } = useContext(Folds);
  const [isOpen, setOpen] = useState(isOpenFirst);
  useEffect(() => {
    if (tools !== "as it is") setOpen(tools === "open");
  }, [tools]);
  return [isOpen, (event) => setOpen(event.currentTarget.open)];
}
