import { CircleQuestionMark, type LucideIcon, Pencil, SquareTerminal, Wrench } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { ApprovalDocument } from "../api/types.ts";
import { count } from "../core/format.ts";
import { Time } from "../parts/Figures.tsx";
import { useHotkeys } from "../parts/useHotkeys.ts";
import { visible } from "../thread/text.ts";
import { Ask, type AskHandle } from "./Ask.tsx";
import { askerOf, kindOfRequest, lineOf, type RequestKind } from "./request.ts";
import { useKeptFocus } from "./useKeptFocus.ts";

/** A key approves only what could be seen. */
const SEEN_MS = 400;

/** As in the style sheet: the request is below the list. */
const NARROW = "(max-width: 800px)";

const ICONS: Record<RequestKind, LucideIcon> = {
  command: SquareTerminal,
  change: Pencil,
  question: CircleQuestionMark,
  call: Wrench,
};

/** What waits for the reader: a list, and the request that is chosen in it. */
export function Waiting({ requests }: { requests: readonly ApprovalDocument[] }) {
  const [chosen, choose] = useState<string | null>(null);
  const [said, setSaid] = useState("");
  const handle = useRef<AskHandle>(null);
  const place = useRef<HTMLDivElement>(null);
  const shownAt = useRef(0);
  const known = useRef<readonly string[]>([]);
  const current = requests.find((one) => one.id === chosen) ?? requests[0] ?? null;
  const shown = current?.id;
  useEffect(() => {
    if (shown) shownAt.current = performance.now();
  }, [shown]);
  // The next one takes the place of one that was decided; what the reader chose stays chosen.
  useEffect(() => {
    if (chosen !== null && requests.every((one) => one.id !== chosen)) {
      const at = known.current.indexOf(chosen);
      choose(requests[Math.min(at, requests.length - 1)]?.id ?? null);
    }
    known.current = requests.map((one) => one.id);
  }, [requests, chosen]);
  const showCard = () => place.current?.querySelector(".ask-card")?.scrollIntoView({ block: "start" });
  useKeptFocus(place, said, "[aria-current]");
  useHotkeys({
    // A key that is held down must not decide what comes next.
    a: (event) => {
      if (!event.repeat && performance.now() - shownAt.current > SEEN_MS) handle.current?.approve();
    },
    x: () => handle.current?.refuse(),
    e: (event) => {
      if (!inNotices(event)) handle.current?.edit();
    },
  });
  return (
    <div ref={place}>
      <p className="ask-said" role="status" tabIndex={-1}>
        {said ? `${said}.` : ""}
      </p>
      {current ? (
        <section className="waiting" aria-label="Waiting for you">
          <div className="waiting-list">
            <h2>{count(requests.length, "request")} for you to decide</h2>
            <ul>
              {requests.map((one) => {
                const Sign = ICONS[kindOfRequest(one)];
                return (
                  <li key={one.id}>
                    <button
                      type="button"
                      data-row=""
                      aria-current={one.id === current.id ? "true" : undefined}
                      onClick={() => {
                        choose(one.id);
                        if (matchMedia(NARROW).matches) requestAnimationFrame(showCard);
                      }}
                      onFocus={() => choose(one.id)}
                    >
                      <Sign aria-hidden="true" />
                      <span className="waiting-line">{visible(lineOf(one)).slice(0, 160)}</span>
                      <Time at={one.created_at} />
                      <span className="waiting-who">
                        {visible(askerOf(one))}
                        {one.label
                          ? `, in ${visible(one.label)}`
                          : one.folder
                            ? `, in ${visible(one.folder)}`
                            : ""}
                      </span>
                    </button>
                  </li>
                );
              })}
            </ul>
          </div>
          <Ask key={current.id} request={current} told={setSaid} handle={handle} hasKeys />
        </section>
      ) : null}
    </div>
  );
}

function inNotices(event: KeyboardEvent): boolean {
  return event.target instanceof HTMLElement && event.target.closest("[data-notice]") !== null;
}
