import { useQuery } from "@tanstack/react-query";
import { ChevronRight, Square } from "lucide-react";
import { memo, type Ref, useEffect, useMemo, useRef, useState } from "react";
import { sessionApprovals } from "../../api/approvals.ts";
import { Ask } from "../../approvals/Ask.tsx";
import { useKeptFocus } from "../../approvals/useKeptFocus.ts";
import { toneOf } from "../../core/agents.ts";
import { count, figure } from "../../core/format.ts";
import type { FollowedRun, PartialReply } from "../../core/runNews.ts";
import { Button } from "../../parts/Button.tsx";
import { Agent, Chip } from "../../parts/Chip.tsx";
import { Flow } from "../Flow.tsx";
import { Markdown, PlainText } from "../markdown/Markdown.tsx";
import { CallsAtWork } from "../Steps.tsx";
import { Question } from "../TurnArticle.tsx";
import { visible } from "../text.ts";
import { TurnOfPart } from "../Whole.tsx";
import type { AnswerState } from "./useAnswer.ts";

interface Props {
  session: string | null;
  answer: AnswerState;
  agent: string | null;
  model: string | null;
  isFirst: boolean;
  /** The element whose lower edge is where the words are. */
  foot: Ref<HTMLDivElement>;
}

/** A turn that is being written, laid out as it will be once it is sealed. */
export function LiveTurn({ session, answer, agent, model, isFirst, foot }: Props) {
  const { run, entry } = answer;
  if (!run && !entry) return null;
  const query = run?.query.length ? run.query : [];
  const name = agent ?? "assistant";
  return (
    <TurnOfPart value="">
      <article
        className={`turn live tone-${toneOf(name)}${isFirst ? " first" : ""}`}
        aria-labelledby="turn-live-title"
        data-run={run?.run ?? entry?.run}
        tabIndex={-1}
        id="turn-live"
      >
        <header className="turn-meta">
          <Agent agent={name} />
          {model ? <span className="turn-model">{visible(model)}</span> : null}
          <span className="live-state">
            <i aria-hidden="true" />
            {phaseOf(answer)}
          </span>
          <Button
            kind="quiet"
            className="live-stop"
            icon={<Square aria-hidden="true" />}
            hotkey="Esc"
            disabled={answer.isStopping || entry?.is_canceled === true}
            onClick={answer.stop}
          >
            {answer.isStopping || entry?.is_canceled ? "Stopping…" : "Stop"}
          </Button>
        </header>
        {query.length ? (
          <Question
            id="turn-live-title"
            turn={{ kind: "normal", query: [...query], title: "", compaction: null }}
          />
        ) : (
          <h2 id="turn-live-title" className="ask" dir="auto">
            {visible(entry?.text || "A message")}
          </h2>
        )}
        {run ? <Reply run={run} /> : null}
        {run?.parked != null ? <Parked run={run.run} session={session} reason={run.parked} /> : null}
        <div ref={foot} />
      </article>
    </TurnOfPart>
  );
}

const Reply = memo(function Reply({ run }: { run: FollowedRun }) {
  return (
    <CallsAtWork value={run.running}>
      {run.reply.length ? <Flow messages={run.reply} /> : null}
      {run.partial ? <Partial partial={run.partial} /> : null}
    </CallsAtWork>
  );
});

function Parked({ run, session, reason }: { run: string; session: string | null; reason: string }) {
  const waiting = useQuery({ ...sessionApprovals(session ?? ""), enabled: session !== null });
  const [said, setSaid] = useState("");
  const place = useRef<HTMLDivElement>(null);
  useKeptFocus(place, said, ".ask-card");
  const requests = waiting.data?.approvals.filter((one) => one.run === run) ?? [];
  if (requests.length > 0)
    return (
      <div ref={place}>
        <p className="ask-said" role="status" tabIndex={-1}>
          {said ? `${said}.` : ""}
        </p>
        {requests.map((one) => (
          <Ask key={one.id} request={one} told={setSaid} isInline />
        ))}
      </div>
    );
  return (
    <p className="ending">
      This run waits{reason ? `: ${visible(reason)}` : ""}. It goes on once that is decided. Stop ends it, and
      keeps what it has done.
    </p>
  );
}

function Partial({ partial }: { partial: PartialReply }) {
  const isCut = partial.textCut > 0 || partial.isLate;
  const text = useCalm(partial.text);
  return (
    <div className="flow">
      {partial.reasoning ? <Thought text={partial.reasoning} cut={partial.reasoningCut} /> : null}
      {isCut ? (
        <p className="cut">
          {partial.textCut > 0
            ? `${figure(partial.textCut)} characters before this are shown once they are recorded.`
            : "What came before this is shown once it is recorded."}
        </p>
      ) : null}
      {text ? (
        <div className="live-text">
          {isCut ? <PlainText text={visible(text)} /> : <Markdown text={text} />}
        </div>
      ) : null}
      {partial.tools.length ? (
        <p className="live-tools">
          {partial.tools.map((tool, index) => (
            <Chip key={index}>{visible(tool)}</Chip>
          ))}
          <span className="faint">{count(partial.tools.length, "call")} being written</span>
        </p>
      ) : null}
    </div>
  );
}

function Thought({ text, cut }: { text: string; cut: number }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details className="reasoning" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <ChevronRight className="chevron" aria-hidden="true" /> Thinking{" "}
        <span className="faint">{figure(text.length + cut)} characters</span>
      </summary>
      {isOpen ? (
        <div>
          <PlainText text={visible(text)} />
        </div>
      ) : null}
    </details>
  );
}

/** A long text is read anew for every word: it is drawn the less often the longer it is. */
const CALM_CHARS = 4_000;
const CALM_MS_PER_CHAR = 1 / 100;

function useCalm(text: string): string {
  const [drawn, setDrawn] = useState(text);
  const latest = useRef(text);
  latest.current = text;
  const wait = text.length < CALM_CHARS ? 0 : text.length * CALM_MS_PER_CHAR;
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    if (wait === 0 || timer.current !== undefined || drawn === text) return;
    timer.current = setTimeout(() => {
      timer.current = undefined;
      setDrawn(latest.current);
    }, wait);
  }, [text, drawn, wait]);
  useEffect(() => () => clearTimeout(timer.current), []);
  // A text that does not continue what is drawn is another one: an attempt that began anew.
  return useMemo(() => (wait === 0 || !text.startsWith(drawn) ? text : drawn), [wait, text, drawn]);
}

/** What is going on, in a word or two. */
export function phaseOf({ run, entry, isStopping }: AnswerState): string {
  if (isStopping || entry?.is_canceled) return "Stopping";
  if (!run || (run.query.length === 0 && entry?.status === "waiting")) return "Waits";
  if (run.parked !== null) return "Waits";
  if (run.running.length > 0)
    return run.running.length === 1 ? "Runs a tool" : `Runs ${run.running.length} tools`;
  if (run.partial?.text) return "Writing";
  if (run.partial?.tools.length) return "Calls a tool";
  return "Thinking";
}
