import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ListTree, PanelRight } from "lucide-react";
import { memo, useCallback, useEffect, useMemo, useRef, useState } from "react";
import { useOffered } from "../act/offers.ts";
import { SessionActs } from "../act/SessionActs.tsx";
import { useActKeys, useActs } from "../act/useActs.ts";
import { useMe } from "../api/me.ts";
import { asProblem } from "../api/problem.ts";
import { count, figure, moment, short } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Agent, Chip } from "../parts/Chip.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { useTitle } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { type Hotkeys, useHotkeys } from "../parts/useHotkeys.ts";
import { useNow } from "../parts/useNow.ts";
import { Composer, type Destination, takesFocus, usePreview } from "./composer/Composer.tsx";
import { LiveTurn } from "./composer/LiveTurn.tsx";
import { useAnswer } from "./composer/useAnswer.ts";
import { useTail } from "./composer/useTail.ts";
import { type Fold, Folds } from "./folds.ts";
import { FileDialog } from "./inspector/FileDialog.tsx";
import { Inspector } from "./inspector/Inspector.tsx";
import { Onward } from "./Onward.tsx";
import { forksOf } from "./outline.ts";
import { pageOf } from "./pages.ts";
import { SpineNav } from "./SpineNav.tsx";
import { StillnessOfReader } from "./stillness.ts";
import { TurnArticle, tail } from "./TurnArticle.tsx";
import { TurnWindow } from "./TurnWindow.tsx";
import { visible } from "./text.ts";
import "./reading.css";
import "./thread.css";
import { useReader } from "./useReader.ts";
import { type ThreadState, useSpine, useThread, useTurn } from "./useThread.ts";
import type { Turn } from "./wire.ts";

/** `/s/{label}` and `/t/{turn}`: a thread, read like an interview. */
export default function ThreadPage() {
  const { label, turn } = useParams({ strict: false });
  const revision = label ?? turn ?? "";
  // A thread keeps its scrolling and its folds while it is read; another one begins anew.
  return <OpenThread key={label ? "session" : "turn"} revision={revision} isTurn={label === undefined} />;
}

function OpenThread({ revision, isTurn }: { revision: string; isTurn: boolean }) {
  const search = useSearch({ strict: false });
  // Only the address that the thread was opened with decides which page comes first.
  const opening = useRef({ revision: "", turn: "" });
  if (opening.current.revision !== revision) opening.current = { revision, turn: search.turn ?? "" };
  const addressed = useTurn(opening.current.turn || null);
  const isPlaced = opening.current.turn === "" || addressed.data !== undefined || addressed.isError;
  const [inView, setRange] = useState<readonly [number, number]>([1, 1]);
  // What is asked are pages: only another page is news.
  const setInView = useCallback(
    (low: number, high: number) =>
      setRange((before) =>
        pageOf(before[0]) === pageOf(low) && pageOf(before[1]) === pageOf(high) ? before : [low, high],
      ),
    [],
  );
  const { thread, error, pageError, retry } = useThread(
    isPlaced ? revision : "",
    isTurn ? null : (addressed.data?.depth ?? 1),
    inView,
  );
  if (error) return <Missing error={error} revision={revision} retry={retry} />;
  if (!thread)
    return (
      <div className="page" aria-busy="true">
        <Skeleton rows={9} label="Reading the thread" />
      </div>
    );
  return (
    <Reading
      thread={thread}
      revision={revision}
      isTurn={isTurn}
      opensAt={isTurn ? thread.total : (addressed.data?.depth ?? 1)}
      setInView={setInView}
      pageError={pageError}
      retry={retry}
    />
  );
}

function Missing(props: { error: unknown; revision: string; retry: () => void }) {
  const problem = asProblem(props.error);
  useTitle("Not found");
  return (
    <div className="page">
      <h1 className="visually-hidden">{visible(props.revision)}</h1>
      {problem.isMissing ? (
        <Empty
          title={`Nothing is called “${visible(props.revision).slice(0, 80)}”`}
          action={
            <p className="missing-ways">
              <Link className="button" to="/sessions">
                All sessions
              </Link>
              <Link className="button" to="/search" search={{ q: props.revision.slice(0, 80) }}>
                Search for it
              </Link>
            </p>
          }
        >
          It may have been renamed, or belong to another workspace. A session is addressed by its label, a
          turn by the first characters of its id or digest.
        </Empty>
      ) : (
        <Failure error={props.error} retry={props.retry} />
      )}
    </div>
  );
}

interface ReadingProps {
  thread: ThreadState;
  revision: string;
  isTurn: boolean;
  opensAt: number;
  setInView: (low: number, high: number) => void;
  pageError: unknown;
  retry: () => void;
}

const NEXT_FOLD: Record<Fold, Fold> = { "as it is": "open", open: "closed", closed: "open" };

function Reading({ thread, revision, isTurn, opensAt, setInView, pageError, retry }: ReadingProps) {
  const { total, turns, session } = thread;
  const search = useSearch({ strict: false });
  const navigate = useNavigate();
  const reader = useReader(total, turns.size);
  const { here, jump } = reader;
  const [folds, setFolds] = useState<{ tools: Fold; reasoning: Fold }>({
    tools: "as it is",
    reasoning: "as it is",
  });
  const [sheet, setSheet] = useState<"spine" | "inspector" | null>(null);
  const [forkAt, setForkAt] = useState<Destination["at"]>(null);
  const [model, setModel] = useState("");
  const me = useMe();
  const spine = useSpine(thread.head).data;
  const turn = turns.get(here) ?? null;
  const label = isTurn ? session : (session ?? revision);
  const firstTitle = turns.get(1)?.title ?? spine?.nodes.find((node) => node.depth === 1)?.title;
  // Agents number their sessions; people know those by what they asked first.
  const isNamed = label !== null && !/^[0-9a-f]{6,}(-[0-9a-f]+)*$/.test(tail(label));
  const title = isNamed ? tail(label) : (firstTitle ?? (label ? tail(label) : "A thread"));
  useTitle(visible(title));

  const last = turns.get(total);
  const destination: Destination = useMemo(() => {
    const at = total === 0 ? null : { id: thread.head, digest: last?.digest ?? "", depth: total };
    if (forkAt) return { to: forkAt.id, label: null, at: forkAt };
    return { to: label ?? thread.head, label, at };
  }, [forkAt, label, thread.head, total, last?.digest]);
  const preview = usePreview(destination.to, model, thread.head);
  const answer = useAnswer(label, thread);
  const isLive = answer.run !== null || answer.entry !== null;
  const foot = useRef<HTMLDivElement>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const { toEnd } = useTail(
    reader.scroller,
    foot,
    answer.run?.run ?? answer.entry?.run ?? null,
    reader.letGo,
  );
  useEffect(() => {
    if (takesFocus(label)) field.current?.focus();
  }, [label]);

  const setAddress = useCallback(
    (next: Record<string, string | undefined>, replace = true) =>
      void navigate({
        to: ".",
        search: (before: Record<string, unknown>) => ({ ...before, ...next }),
        replace,
      }),
    [navigate],
  );

  // Which turns to have: all of a short thread; the window of a long one says it for itself.
  useEffect(() => {
    if (!reader.isWindow) setInView(1, total);
  }, [reader.isWindow, total, setInView]);

  // Open at the addressed turn, once for each address.
  const opened = useRef("");
  const address = `${revision} ${search.turn ?? ""}`;
  const wrote = useRef("");
  const addressed = useTurn(search.turn ?? null).data;
  useEffect(() => {
    if (opened.current === address || wrote.current === search.turn) {
      opened.current = address;
      return;
    }
    const depth = search.turn ? addressed?.depth : opensAt;
    if (depth === undefined) return;
    opened.current = address;
    if (depth > 1 || reader.here > 1) jump(depth);
  }, [address, addressed, opensAt, search.turn, jump, reader.here]);

  const go = useCallback(
    (depth: number) => {
      jump(depth);
      const goal = turns.get(depth);
      if (goal && !isTurn) {
        wrote.current = goal.id;
        setAddress({ turn: goal.id });
      }
      requestAnimationFrame(() => document.getElementById(`turn-${depth}`)?.focus({ preventScroll: true }));
    },
    [jump, turns, isTurn, setAddress],
  );

  const forks = useMemo(() => (spine ? forksOf(spine) : []), [spine]);
  const mark = useCallback(
    (marked: Turn) => {
      if (search.mark === marked.id) setAddress({ mark: undefined });
      else if (search.mark)
        void navigate({ to: "/compare/$pair", params: { pair: `${search.mark}...${marked.id}` } });
      else setAddress({ mark: marked.id });
    },
    [search.mark, setAddress, navigate],
  );
  const switchBranch = (step: 1 | -1) => {
    // The fork that is nearest above what is read, or the turn itself.
    const depth = turn && turn.branches.length > 0 ? here : forks.filter((fork) => fork <= here).at(-1);
    const fork = depth === undefined ? undefined : turns.get(depth);
    if (!fork) return;
    const own = turns.get(fork.depth + 1);
    const ways = [
      ...fork.branches.map((branch) => ({ turn: branch.turn, label: branch.label })),
      ...(own ? [{ turn: own.id, label }] : []),
    ].sort((a, b) => (a.turn < b.turn ? -1 : 1));
    const at = own ? ways.findIndex((way) => way.turn === own.id) : step > 0 ? -1 : 0;
    const next = ways[(at + step + ways.length) % ways.length];
    if (!next || next.turn === own?.id) return;
    void (next.label
      ? navigate({ to: "/s/$label", params: { label: next.label }, search: { turn: next.turn } })
      : navigate({ to: "/t/$turn", params: { turn: next.turn } }));
  };
  const fold = (what: "tools" | "reasoning") =>
    setFolds((before) => ({ ...before, [what]: NEXT_FOLD[before[what]] }));
  const back = () => {
    if (search.mark) setAddress({ mark: undefined });
    else if (isLive && !answer.isStopping) answer.stop();
  };
  useHotkeys({
    m: () => field.current?.focus(),
    j: () => go(Math.min(total, here + 1)),
    k: () => go(Math.max(1, here - 1)),
    "[": () => go(forks.filter((fork) => fork < here).at(-1) ?? 1),
    "]": () => go(forks.find((fork) => fork > here) ?? total),
    e: () => fold("tools"),
    i: () => fold("reasoning"),
    d: () => setSheet(sheet === "inspector" ? null : "inspector"),
    y: () => turn && void navigator.clipboard.writeText(turn.digest.replace(/^sha256:/, "")),
    c: () => turn && mark(turn),
    ...namedKeys([
      ["Home", () => go(1)],
      ["End", () => go(total)],
      ["ArrowLeft", () => switchBranch(-1)],
      ["ArrowRight", () => switchBranch(1)],
      ["Escape", back],
    ]),
  });
  const { fork: openFork, rewind: openRewind, revert: openRevert, share: openShare } = useActs();
  const offers = useOffered();
  const [canFork, canRewind, canRevert] = [offers("fork"), offers("rewind"), offers("revert")];
  const acts = useMemo(
    () => ({
      fork: canFork ? (at: Turn) => openFork({ turn: at, session: label }) : null,
      rewind: canRewind ? (at: Turn) => openRewind({ turn: at, session: label }) : null,
      revert: canRevert ? (at: Turn) => openRevert({ turn: at, session: label }) : null,
      share: (at: Turn) => openShare({ turn: at, session: label }),
      mark,
    }),
    [openFork, openRewind, openRevert, openShare, label, mark, canFork, canRewind, canRevert],
  );
  useActKeys(() => (turn ? { turn, session: label, head: thread.head } : null));
  const article = (depth: number) => {
    const shown = turns.get(depth);
    // What is being written stays until its turn is here in its place.
    if (!shown && isLive && depth === total && answer.run?.run === thread.head) return null;
    return shown ? (
      <TurnArticle
        key={shown.id}
        turn={shown}
        next={turns.get(depth + 1) ?? null}
        session={label}
        isHere={depth === here}
        isMarked={shown.id === search.mark}
        acts={acts}
      />
    ) : (
      <div key={depth} className="turn waiting" aria-hidden="true">
        <Skeleton rows={4} />
      </div>
    );
  };
  const spineNav = <SpineNav spine={spine} turns={turns} total={total} here={here} jump={go} />;
  return (
    <Folds value={folds}>
      <div className={total === 0 ? "thread begins" : "thread"}>
        {total === 0 ? null : spineNav}
        <div className="reader-column">
          <div className="reader" ref={reader.scroller} role="region" aria-label="The thread" tabIndex={0}>
            {total === 0 ? null : (
              <div className="reader-bar">
                <Button kind="quiet" icon={<ListTree aria-hidden="true" />} onClick={() => setSheet("spine")}>
                  {count(total, "turn")}
                </Button>
                <Button
                  kind="quiet"
                  icon={<PanelRight aria-hidden="true" />}
                  onClick={() => setSheet("inspector")}
                >
                  About turn {here}
                </Button>
              </div>
            )}
            <div className="reader-page">
              <Lead thread={thread} title={title} label={label} isTurn={isTurn} />
              <StillnessOfReader value={reader.stillness}>
                {reader.isWindow ? (
                  <TurnWindow
                    total={total}
                    scroller={reader.scroller}
                    list={reader.list}
                    scrollTo={reader.scrollTo}
                    article={article}
                    setInView={setInView}
                  />
                ) : (
                  <div ref={reader.list} className="turns">
                    {Array.from({ length: total }, (_, index) => article(index + 1))}
                  </div>
                )}
              </StillnessOfReader>
              {isLive ? (
                <LiveTurn
                  session={label}
                  answer={answer}
                  agent={preview.data?.agent ?? null}
                  model={preview.data?.model?.model_id ?? null}
                  isFirst={total === 0}
                  foot={foot}
                />
              ) : total === 0 ? (
                <Empty title="This session has no turns yet">
                  Write its first message below, or let its agent begin.
                </Empty>
              ) : null}
              <Onward spine={spine} total={total} isTurn={isTurn} />
              {pageError ? <Failure error={pageError} retry={retry} compact /> : null}
            </div>
          </div>
          {me ? (
            <Composer
              key={`${me.user} ${label ?? revision}`}
              person={me.user}
              destination={destination}
              other={
                !forkAt && turn && here < total
                  ? {
                      depth: here,
                      choose: () => setForkAt({ id: turn.id, digest: turn.digest, depth: here }),
                    }
                  : null
              }
              back={forkAt ? () => setForkAt(null) : null}
              answer={answer}
              preview={preview.data}
              previewError={preview.error}
              model={model}
              setModel={setModel}
              field={field}
              onSend={() => {
                setForkAt(null);
                requestAnimationFrame(toEnd);
              }}
              leave={() => reader.scroller.current?.focus()}
            />
          ) : null}
        </div>
        {total === 0 ? null : <Inspector turn={turn} session={label} />}
      </div>
      {search.mark ? (
        <p className="mark-bar" role="status">
          One turn is marked. Press <kbd>c</kbd> on another to compare the two, or <kbd>Esc</kbd> to unmark
          it.
        </p>
      ) : null}
      {sheet === "spine" ? (
        <Dialog title="Turns of this thread" close={() => setSheet(null)} className="sheet">
          <SpineNav
            spine={spine}
            turns={turns}
            total={total}
            here={here}
            jump={(depth) => {
              setSheet(null);
              go(depth);
            }}
          />
        </Dialog>
      ) : null}
      {sheet === "inspector" ? (
        <Dialog title={`About turn ${here}`} close={() => setSheet(null)} className="sheet">
          <Inspector turn={turn} session={label} />
        </Dialog>
      ) : null}
      {search.path && turn ? (
        <FileDialog
          key={`${turn.id} ${search.path}`}
          turn={turn}
          path={search.path}
          close={() => setAddress({ path: undefined })}
        />
      ) : null}
    </Folds>
  );
}

/** Keys with names in capitals, which a linter would take for components. */
function namedKeys(keys: readonly (readonly [string, () => void])[]): Hotkeys {
  return Object.fromEntries(keys);
}

/** The title of a thread and what is known of the whole. */
const Lead = memo(function Lead(props: {
  thread: ThreadState;
  title: string;
  label: string | null;
  isTurn: boolean;
}) {
  const { thread, title, label } = props;
  const now = useNow();
  const known = [...thread.turns.values()];
  const agents = [...new Set(known.map((turn) => turn.agent))];
  const first = thread.turns.get(1);
  const isWhole = known.length === thread.total;
  const tokens = isWhole ? known.reduce((sum, turn) => sum + (turn.tokens ?? 0), 0) : 0;
  return (
    <header className="lead">
      <div className="lead-title">
        <h1 dir="auto">{visible(title)}</h1>
        {label ? <SessionActs session={label} head={thread.head} /> : null}
      </div>
      <p>
        {agents.map((agent) => (
          <Agent key={agent} agent={agent} />
        ))}
        {first ? <span>{moment(Date.parse(first.started_at), now)}</span> : null}
        <span>{props.isTurn ? `up to turn ${figure(thread.total)}` : count(thread.total, "turn")}</span>
        {tokens > 0 ? <span>{short(tokens)} tokens</span> : null}
        {label && label !== title ? <code>{visible(label)}</code> : null}
        {thread.session === null && !label ? <Chip>no session ends at this turn</Chip> : null}
      </p>
    </header>
  );
});
