import { useNavigate, useSearch } from "@tanstack/react-router";
import { memo, useEffect, useId, useState } from "react";
import { shortId } from "../../core/format.ts";
import type { Turn } from "../wire.ts";
import { CausesTab } from "./CausesTab.tsx";
import { ContextTab } from "./ContextTab.tsx";
import { FilesTab } from "./FilesTab.tsx";
import { GoOn } from "./GoOn.tsx";
import { RawTab } from "./RawTab.tsx";

const TABS = [
  { name: "files", title: "Files", Tab: FilesTab },
  { name: "context", title: "Context", Tab: ContextTab },
  { name: "why", title: "Why", Tab: CausesTab },
  { name: "raw", title: "Raw", Tab: RawTab },
] as const;

/** Scrolling past turns asks the server for none of them; resting on one does. */
const REST_MS = 220;

/** What is known about the turn in view, besides its words. */
export const Inspector = memo(function Inspector(props: { turn: Turn | null; session: string | null }) {
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  const id = useId();
  const turn = useRested(props.turn);
  const tab = TABS.find(({ name }) => name === search.tab) ?? TABS[0];
  const choose = (name: string) =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => ({ ...before, tab: name }),
      replace: true,
    });
  const onKey = (event: React.KeyboardEvent) => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    event.stopPropagation();
    const next = TABS[(TABS.indexOf(tab) + step + TABS.length) % TABS.length]!;
    choose(next.name);
    document.getElementById(`${id}-${next.name}`)?.focus();
  };
  return (
    <section className="inspector" aria-label="About the turn in view">
      <div className="tabs" role="tablist" aria-label="About this turn" onKeyDown={onKey}>
        {TABS.map(({ name, title }) => (
          <button
            key={name}
            type="button"
            role="tab"
            id={`${id}-${name}`}
            aria-selected={name === tab.name}
            aria-controls={`${id}-panel`}
            tabIndex={name === tab.name ? 0 : -1}
            onClick={() => choose(name)}
          >
            {title}
          </button>
        ))}
      </div>
      <div
        className="inspector-body"
        role="tabpanel"
        id={`${id}-panel`}
        aria-labelledby={`${id}-${tab.name}`}
        tabIndex={0}
      >
        {turn ? (
          <>
            <p className="inspector-of">
              Turn {turn.depth}, <code>{shortId(turn.digest)}</code>
            </p>
            <tab.Tab key={turn.id} turn={turn} />
            <GoOn turn={turn} session={props.session} />
          </>
        ) : null}
      </div>
    </section>
  );
});

function useRested(turn: Turn | null): Turn | null {
  const [rested, setRested] = useState(turn);
  useEffect(() => {
    if (rested === null) setRested(turn);
    const timer = setTimeout(() => setRested(turn), REST_MS);
    return () => clearTimeout(timer);
  }, [turn, rested]);
  return rested;
}
