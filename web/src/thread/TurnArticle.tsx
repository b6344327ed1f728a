import { Link } from "@tanstack/react-router";
import { Archive, Eraser, GitBranch, GitCompare, GitFork, Share, Tag, Undo2 } from "lucide-react";
import { memo, useMemo } from "react";
import { toneOf } from "../core/agents.ts";
import { count, duration, short, shortId, time, titled } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Agent, Chip, Dot } from "../parts/Chip.tsx";
import { CopyButton } from "./code/Code.tsx";
import { Flow } from "./Flow.tsx";
import { questionOf } from "./flow.ts";
import { PlainText } from "./markdown/Markdown.tsx";
import { MentionText } from "./markdown/Mention.tsx";
import { useRested } from "./stillness.ts";
import { visible } from "./text.ts";
import { TurnOfPart, Whole } from "./Whole.tsx";
import type { Turn } from "./wire.ts";

export interface TurnActs {
  /** Null is not offered to this reader. */
  fork: ((turn: Turn) => void) | null;
  rewind: ((turn: Turn) => void) | null;
  revert: ((turn: Turn) => void) | null;
  share: (turn: Turn) => void;
  mark: (turn: Turn) => void;
}

interface Props {
  turn: Turn;
  /** The turn that follows it in the thread that is read; null at its end. */
  next: Turn | null;
  /** The label of the thread that is read. */
  session: string | null;
  isHere: boolean;
  isMarked: boolean;
  acts: TurnActs;
}

/** One exchange: who and when, the question as a heading, the answer, and the branches that leave here. */
export const TurnArticle = memo(function TurnArticle({ turn, next, session, isHere, isMarked, acts }: Props) {
  const id = `turn-${turn.depth}`;
  const isCompaction = turn.kind === "compaction";
  return (
    <TurnOfPart value={turn.id}>
      <article
        id={id}
        className={`turn tone-${toneOf(turn.agent)}${isCompaction ? " compaction" : ""}${isHere ? " in-view" : ""}`}
        aria-labelledby={`${id}-title`}
        data-depth={turn.depth}
        tabIndex={-1}
      >
        <header className="turn-meta">
          <Agent agent={turn.agent} />
          {turn.model ? <span className="turn-model">{visible(turn.model)}</span> : null}
          <TurnTime turn={turn} />
          {turn.tokens === null ? null : <span className="turn-tokens">{short(turn.tokens)} tokens</span>}
          <OutcomeChip turn={turn} />
          {turn.tags.map((tag) => (
            <Chip key={tag} kind="accent">
              <Tag aria-hidden="true" /> {visible(tag)}
            </Chip>
          ))}
          {isMarked ? <Chip kind="accent">marked to compare</Chip> : null}
          <TurnButtons turn={turn} isMarked={isMarked} acts={acts} />
        </header>
        <Question turn={turn} id={`${id}-title`} />
        <Flow messages={turn.reply} />
        <Ending turn={turn} />
        <Branches turn={turn} next={next} session={session} />
      </article>
    </TurnOfPart>
  );
});

/** Half of what a turn is made of, and seen only where the pointer or the reader is: a turn that passes goes without. */
function TurnButtons({ turn, isMarked, acts }: Pick<Props, "turn" | "isMarked" | "acts">) {
  if (!useRested()) return null;
  const { fork, rewind, revert } = acts;
  return (
    <span className="turn-acts">
      {fork ? (
        <Button kind="quiet" icon={<GitFork aria-hidden="true" />} onClick={() => fork(turn)}>
          <span>Fork</span>
        </Button>
      ) : null}
      {rewind ? (
        <Button kind="quiet" icon={<Undo2 aria-hidden="true" />} onClick={() => rewind(turn)}>
          <span>Rewind</span>
        </Button>
      ) : null}
      {revert ? (
        <Button
          kind="quiet"
          icon={<Eraser aria-hidden="true" />}
          title="Revert this turn: take back only what it did to files"
          onClick={() => revert(turn)}
        >
          <span>Revert</span>
          <span className="visually-hidden"> this turn</span>
        </Button>
      ) : null}
      <Button
        kind="quiet"
        className="sign"
        icon={<Share aria-hidden="true" />}
        title="Share the thread up to here"
        onClick={() => acts.share(turn)}
      >
        <span>Share</span>
      </Button>
      <Button
        kind="quiet"
        className="sign"
        title={isMarked ? "Marked to compare" : "Mark it to compare"}
        icon={<GitCompare aria-hidden="true" />}
        aria-pressed={isMarked}
        onClick={() => acts.mark(turn)}
      >
        <span>Compare</span>
      </Button>
      <span className="turn-address">
        <code>{shortId(turn.digest)}</code>
        <CopyButton
          text={turn.digest.replace(/^sha256:/, "")}
          label={`Copy the address ${shortId(turn.digest)}`}
        />
      </span>
    </span>
  );
}

function TurnTime({ turn }: { turn: Turn }) {
  const began = Date.parse(turn.started_at);
  const took = Date.parse(turn.sealed_at) - began;
  return (
    <time className="turn-time" dateTime={turn.started_at} title={new Date(began).toLocaleString("en")}>
      {time(began)}
      {took >= 1000 ? `, ${duration(took)}` : ""}
    </time>
  );
}

function OutcomeChip({ turn }: { turn: Turn }) {
  switch (turn.outcome) {
    case "failed":
      return <Chip kind="bad">failed</Chip>;
    case "canceled":
    case "interrupted":
      return <Chip kind="warn">stopped</Chip>;
    default:
      return null;
  }
}

const QUESTION_CHARS_MAX = 700;
/** A longer question is laid out in pieces; a post, which may mention, has no more characters than this. */
const MENTIONS_CHARS_MAX = 65_536;

/** What was asked: its beginning as a heading, the rest as text. */
export function Question({
  turn,
  id,
}: {
  turn: Pick<Turn, "kind" | "query" | "title" | "compaction">;
  id: string;
}) {
  const question = useMemo(() => questionOf(turn.query), [turn.query]);
  if (turn.kind === "compaction") {
    const kept = turn.compaction;
    const saved =
      kept?.tokens_before != null && kept.tokens_after != null
        ? `, ${short(kept.tokens_before)} to ${short(kept.tokens_after)} tokens`
        : "";
    return (
      <h2 id={id} className="ask">
        <Archive aria-hidden="true" />
        {kept ? `${count(kept.turns_summarized, "turn")} summarized${saved}` : "Earlier turns summarized"}
        <small>
          {kept?.trigger === "manual" ? "Asked for by hand. " : ""}The turns themselves stay above, and every
          fork of them. This is what the model kept:
        </small>
      </h2>
    );
  }
  const isErased = turn.query.length > 0 && turn.query.every((message) => message.erased);
  const words = isErased ? "This question was erased" : question.text || titled(turn.title);
  // A question of several paragraphs is a letter: its beginning is the heading, the rest reads as text.
  const [lead, rest] = split(words);
  return (
    <>
      <h2 id={id} className={isErased ? "ask erased" : "ask"} dir="auto">
        <MentionText text={lead} />
      </h2>
      {question.isCut && question.at ? (
        <Whole
          at={question.at}
          noun="question"
          beginning={<AskRest text={rest} />}
          show={question.isOnePart ? (whole) => <AskRest text={split(whole.trim())[1]} /> : undefined}
        />
      ) : (
        <AskRest text={rest} />
      )}
      {question.injected.length > 0 ? (
        <details className="reasoning injected">
          <summary>{count(question.injected.length, "note")} that the tool added to the question</summary>
          {question.injected.map((text, index) => (
            <PlainText key={index} text={visible(text)} />
          ))}
        </details>
      ) : null}
    </>
  );
}

function AskRest({ text }: { text: string }) {
  return text ? (
    <div className="ask-rest">
      {text.length > MENTIONS_CHARS_MAX ? (
        <PlainText text={visible(text)} />
      ) : (
        <p className="plain">
          <MentionText text={text} />
        </p>
      )}
    </div>
  ) : null;
}

function split(words: string): [string, string] {
  const paragraph = words.search(/\n\s*\n/);
  const end = paragraph >= 0 && paragraph <= QUESTION_CHARS_MAX ? paragraph : -1;
  if (end > 0) return [words.slice(0, end), words.slice(end).trim()];
  if (words.length <= QUESTION_CHARS_MAX) return [words, ""];
  const line = words.lastIndexOf("\n", QUESTION_CHARS_MAX);
  const sentence = words.slice(0, QUESTION_CHARS_MAX).lastIndexOf(". ");
  const at = line > 40 ? line : sentence > 40 ? sentence + 1 : 0;
  return at > 0 ? [words.slice(0, at), words.slice(at).trim()] : [`${words.slice(0, 160)} …`, words];
}

/** How a turn ended that did not end well, in words. */
function Ending({ turn }: { turn: Turn }) {
  if (turn.outcome === "completed") return null;
  const reason = turn.reason ? `: ${visible(turn.reason)}` : ".";
  return (
    <p className={turn.outcome === "failed" ? "ending failed" : "ending"}>
      {turn.outcome === "failed"
        ? `This turn failed${reason}`
        : turn.outcome === "canceled"
          ? `This turn was stopped before it was done${reason}`
          : `This turn was interrupted: what was written until then is shown${turn.reason ? ` (${visible(turn.reason)})` : ""}.`}
    </p>
  );
}

/** Every way the thread goes on from here, by name; the one that is read is marked. After the last turn, `Onward` says it. */
function Branches({ turn, next, session }: { turn: Turn; next: Turn | null; session: string | null }) {
  if (turn.branches.length === 0 || !next) return null;
  const others = turn.branches;
  const first = others[0]!;
  return (
    <nav className="branches" aria-label={`${count(others.length + 1, "way")} to go on from here`}>
      <GitBranch aria-hidden="true" />
      <span className="faint">Goes on as</span>
      <span className={`branch tone-${toneOf(next.agent)}`} aria-current="true">
        <Dot />
        <span className="clip">{visible(session ? tail(session) : titled(next.title))}</span>
      </span>
      {others.map((branch) => (
        <BranchAnchor key={branch.turn} branch={branch} />
      ))}
      <Link
        className="button quiet"
        to="/compare/$pair"
        params={{ pair: `${session ?? next.id}...${first.label ?? first.turn}` }}
      >
        <GitCompare aria-hidden="true" /> Compare
      </Link>
    </nav>
  );
}

function BranchAnchor({ branch }: { branch: Turn["branches"][number] }) {
  const words = (
    <>
      <span className="clip">{visible(branch.label ? tail(branch.label) : titled(branch.title))}</span>
    </>
  );
  const title = visible(`${branch.label ?? "No session is here"}: ${titled(branch.title)}`);
  return branch.label ? (
    <Link
      className="branch"
      title={title}
      to="/s/$label"
      params={{ label: branch.label }}
      search={{ turn: branch.turn }}
    >
      {words}
    </Link>
  ) : (
    <Link className="branch" title={title} to="/t/$turn" params={{ turn: branch.turn }}>
      {words}
    </Link>
  );
}

/** The last word of a label, by which people know a session. */
export function tail(label: string): string {
  return label.split("/").pop() || label;
}
