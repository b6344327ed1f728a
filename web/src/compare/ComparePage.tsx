import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ArrowLeftRight, ArrowRight } from "lucide-react";
import { useState } from "react";
import { read } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import { toneOf } from "../core/agents.ts";
import { count, dollars, duration, figure, short, shortId, titled } from "../core/format.ts";
import { Agent, Chip } from "../parts/Chip.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { useTitle } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { useHotkeys } from "../parts/useHotkeys.ts";
import { Flow } from "../thread/Flow.tsx";
import { questionOf } from "../thread/flow.ts";
import { ServerDiff } from "../thread/inspector/FileDialog.tsx";
import { Path } from "../thread/inspector/FilesTab.tsx";
import { tail } from "../thread/TurnArticle.tsx";
import { visible } from "../thread/text.ts";
import { TurnOfPart } from "../thread/Whole.tsx";
import type { CompareSide, Comparison, Turn } from "../thread/wire.ts";
import "../thread/reading.css";
import "../thread/thread.css";
import "./compare.css";
import { PickTwo } from "./PickTwo.tsx";
import { type Pair, pairOf, shares, toolsOfBoth, wordOf } from "./pair.ts";

/** `/compare/{a}...{b}`: two threads from where they part. */
export default function ComparePage() {
  const { pair: word } = useParams({ strict: false });
  const pair = pairOf(word);
  useTitle("Compare");
  return pair.left && pair.right ? <Compared key={wordOf(pair)} pair={pair} /> : <PickTwo pair={pair} />;
}

function Compared({ pair }: { pair: Pair }) {
  const navigate = useNavigate();
  const search = useSearch({ strict: false });
  const both = useQuery({
    queryKey: ["compare", pair],
    queryFn: ({ signal }) => read("/compare/{a}...{b}", { a: pair.left, b: pair.right }, signal),
  });
  const swapped = wordOf({ left: pair.right, right: pair.left });
  const setPath = (file: string | undefined) =>
    void navigate({
      to: ".",
      search: (before: Record<string, unknown>) => ({ ...before, path: file }),
      replace: file === undefined,
    });
  useHotkeys({ x: () => void navigate({ to: "/compare/$pair", params: { pair: swapped } }) });
  if (both.isError)
    return (
      <div className="page">
        <h1 className="visually-hidden">Compare</h1>
        {asProblem(both.error).isMissing ? (
          <Empty
            title="One of these two does not exist"
            action={
              <Link className="button" to="/compare/$pair" params={{ pair: "..." }}>
                Choose two
              </Link>
            }
          >
            {visible(asProblem(both.error).detail || wordOf(pair))}
          </Empty>
        ) : (
          <Failure error={both.error} retry={() => void both.refetch()} />
        )}
      </div>
    );
  if (!both.data)
    return (
      <div className="page" aria-busy="true">
        <Skeleton rows={9} label="Comparing" />
      </div>
    );
  const { base, left, right, files } = both.data;
  return (
    <div className="compare" role="region" aria-label="Two threads compared" tabIndex={0}>
      <header className="parting">
        <h1 className="visually-hidden">
          {visible(nameOf(left))} and {visible(nameOf(right))} compared
        </h1>
        {base ? (
          <p>
            Both stood at{" "}
            <Link to="/t/$turn" params={{ turn: base.id }}>
              {visible(titled(base.title))}
            </Link>{" "}
            <code>{shortId(base.digest)}</code> and share {count(base.depth, "turn")}.
          </p>
        ) : (
          <p>These two share no turn: each began on its own.</p>
        )}
        <Parting left={left} right={right} />
      </header>
      <div className="heads">
        <Head side={left} at="left" />
        <Link
          className="button quiet swap"
          to="/compare/$pair"
          params={{ pair: swapped }}
          aria-label="Swap the sides"
          aria-keyshortcuts="x"
        >
          <ArrowLeftRight aria-hidden="true" />
        </Link>
        <Head side={right} at="right" />
      </div>
      <Figures left={left} right={right} />
      <Files files={files} names={[nameOf(left), nameOf(right)]} open={setPath} />
      <Tools left={left} right={right} />
      <section className="talks" aria-label="What was said">
        <Talk side={left} />
        <Talk side={right} />
      </section>
      {search.path ? <DiffDialog file={search.path} pair={pair} close={() => setPath(undefined)} /> : null}
    </div>
  );
}

function nameOf(side: CompareSide): string {
  return side.label ? tail(side.label) : side.turns.at(-1)?.title || shortId(side.revision);
}

function agentOf(side: CompareSide): string | null {
  return side.turns.at(-1)?.agent ?? null;
}

/** One line that becomes two, each in its agent's colour. */
function Parting(props: { left: CompareSide; right: CompareSide }) {
  return (
    <svg viewBox="0 0 1000 40" preserveAspectRatio="none" aria-hidden="true">
      <path className={`tone-${toneOf(agentOf(props.left))}`} d="M500 0V8C500 30 250 14 250 40" />
      <path className={`tone-${toneOf(agentOf(props.right))}`} d="M500 0V8C500 30 750 14 750 40" />
    </svg>
  );
}

function Head({ side, at }: { side: CompareSide; at: "left" | "right" }) {
  const agent = agentOf(side);
  const last = side.turns.at(-1);
  return (
    <div className={`head tone-${toneOf(agent)}`}>
      <h2 className="clip" title={visible(side.label ?? side.revision)}>
        <span className="visually-hidden">{at}: </span>
        {visible(nameOf(side))}
      </h2>
      {agent ? <Agent agent={agent} /> : null}
      {last?.model ? <span className="faint model">{visible(last.model)}</span> : null}
      {side.label ? (
        <Link className="button" to="/s/$label" params={{ label: side.label }}>
          Continue this one <ArrowRight aria-hidden="true" />
        </Link>
      ) : (
        <Link className="button" to="/t/$turn" params={{ turn: last?.id ?? side.revision }}>
          Open <ArrowRight aria-hidden="true" />
        </Link>
      )}
    </div>
  );
}

function Figures({ left, right }: { left: CompareSide; right: CompareSide }) {
  const calls = (side: CompareSide) => side.tools.reduce((sum, tool) => sum + tool.calls, 0);
  const cost = (side: CompareSide) =>
    side.cost === null ? "unknown" : side.unknown_cost ? `over ${dollars(side.cost)}` : dollars(side.cost);
  const rows = [
    { name: "turns", left: left.turns_total, right: right.turns_total, show: figure },
    { name: "tokens", left: left.tokens, right: right.tokens, show: short },
    {
      name: "time",
      left: left.minutes,
      right: right.minutes,
      show: (minutes: number) => (minutes < 1 ? "under 1 min" : duration(minutes * 60_000)),
    },
    { name: "tool calls", left: calls(left), right: calls(right), show: figure },
    { name: "files changed", left: left.files_changed, right: right.files_changed, show: figure },
  ];
  const tones = [toneOf(agentOf(left)), toneOf(agentOf(right))] as const;
  return (
    <section className="bars" aria-label="Figures">
      {rows.map((row) => {
        const share = shares(row.left, row.right);
        return (
          <div key={row.name} className="bar-row">
            <b>{row.show(row.left)}</b>
            <i className={`bar from-right tone-${tones[0]}`} aria-hidden="true">
              <u style={{ width: `${share.left * 100}%` }} />
            </i>
            <span>{row.name}</span>
            <i className={`bar tone-${tones[1]}`} aria-hidden="true">
              <u style={{ width: `${share.right * 100}%` }} />
            </i>
            <b>{row.show(row.right)}</b>
          </div>
        );
      })}
      <div className="bar-row">
        <b className={left.cost === null ? "unknown" : undefined}>{cost(left)}</b>
        <i aria-hidden="true" />
        <span>list price</span>
        <i aria-hidden="true" />
        <b className={right.cost === null ? "unknown" : undefined}>{cost(right)}</b>
      </div>
      {left.unknown_cost || right.unknown_cost ? (
        <p className="note">Some models have no known price: their cost is unknown and not counted.</p>
      ) : null}
    </section>
  );
}

interface FilesProps {
  files: Comparison["files"];
  names: readonly [string, string];
  open: (path: string) => void;
}

function Files({ files, names, open }: FilesProps) {
  const [isAll, setAll] = useState(false);
  if (files.length === 0)
    return (
      <p className="note compare-note">
        No file is known to differ: both sides left the same files, or no snapshots were taken.
      </p>
    );
  const shown = isAll ? files : files.slice(0, 12);
  return (
    <section aria-label="Files">
      <table className="both-table">
        <thead>
          <tr>
            <th scope="col">{visible(names[0])}</th>
            <th scope="col">{count(files.length, "file")} changed</th>
            <th scope="col">{visible(names[1])}</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((file) => (
            <tr key={file.path} className={file.left && file.right ? "both" : undefined}>
              <td className={file.left ?? undefined}>{file.left ?? "–"}</td>
              <th scope="row">
                <button type="button" onClick={() => open(file.path)}>
                  <Path path={file.path} />
                </button>
              </th>
              <td className={file.right ?? undefined}>{file.right ?? "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < files.length ? (
        <button type="button" className="button quiet" onClick={() => setAll(true)}>
          Show all {figure(files.length)}
        </button>
      ) : null}
    </section>
  );
}

function Tools({ left, right }: { left: CompareSide; right: CompareSide }) {
  const tools = toolsOfBoth(left.tools, right.tools);
  if (tools.length === 0) return null;
  return (
    <details className="both-tools">
      <summary>{count(tools.length, "tool")} used</summary>
      <table className="both-table">
        <thead>
          <tr>
            <th scope="col">{visible(nameOf(left))}</th>
            <th scope="col">tool</th>
            <th scope="col">{visible(nameOf(right))}</th>
          </tr>
        </thead>
        <tbody>
          {tools.map((tool) => (
            <tr key={tool.tool}>
              <td>{tool.left || "–"}</td>
              <th scope="row">{visible(tool.tool)}</th>
              <td>{tool.right || "–"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

function Talk({ side }: { side: CompareSide }) {
  return (
    <div className="talk">
      {side.turns.length === 0 ? <p className="note">This side ends where the two part.</p> : null}
      {side.turns.map((turn) => (
        <TalkTurn key={turn.id} turn={turn} />
      ))}
      {side.turns_total > side.turns.length ? (
        <p className="note">
          and {count(side.turns_total - side.turns.length, "more turn")}
          {side.label ? (
            <>
              {" "}
              in{" "}
              <Link to="/s/$label" params={{ label: side.label }}>
                {visible(tail(side.label))}
              </Link>
            </>
          ) : null}
        </p>
      ) : null}
    </div>
  );
}

function TalkTurn({ turn }: { turn: Turn }) {
  const isSummary = turn.kind === "compaction";
  const question = isSummary
    ? `${count(turn.compaction?.turns_summarized ?? 0, "turn")} summarized`
    : questionOf(turn.query).text || titled(turn.title);
  const took = Date.parse(turn.sealed_at) - Date.parse(turn.started_at);
  return (
    <TurnOfPart value={turn.id}>
      <article className={`talk-turn tone-${toneOf(turn.agent)}`} aria-label={visible(titled(turn.title))}>
        <p className="talk-meta">
          <Link to="/t/$turn" params={{ turn: turn.id }}>
            <code>{shortId(turn.digest)}</code>
          </Link>
          {took >= 1000 ? <span>{duration(took)}</span> : null}
          {turn.tokens === null ? null : <span>{short(turn.tokens)} tokens</span>}
          {turn.outcome === "completed" ? null : (
            <Chip kind={turn.outcome === "failed" ? "bad" : "warn"}>
              {turn.outcome === "failed" ? "failed" : "stopped"}
            </Chip>
          )}
        </p>
        <h3 className="talk-ask" dir="auto">
          {visible(question.slice(0, 600))}
        </h3>
        <Flow messages={turn.reply} />
      </article>
    </TurnOfPart>
  );
}

function DiffDialog(props: { file: string; pair: Pair; close: () => void }) {
  const diff = useQuery({
    queryKey: ["compare-diff", props.pair, props.file],
    queryFn: ({ signal }) =>
      read("/compare/{a}...{b}/diff", { a: props.pair.left, b: props.pair.right, path: props.file }, signal),
  });
  return (
    <Dialog title={visible(props.file)} close={props.close} className="file-dialog">
      <p className="note compare-note">
        From {visible(tail(props.pair.left))} to {visible(tail(props.pair.right))}
      </p>
      <div className="file-body">
        {diff.isError ? (
          <Failure error={diff.error} retry={() => void diff.refetch()} compact />
        ) : diff.data ? (
          <ServerDiff diff={diff.data} />
        ) : (
          <Skeleton />
        )}
      </div>
    </Dialog>
  );
}
