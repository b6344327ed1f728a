import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { GitCompareArrows, GitFork, Undo2 } from "lucide-react";
import { memo } from "react";
import { useOffered } from "../act/offers.ts";
import { useActs } from "../act/useActs.ts";
import { read } from "../api/client.ts";
import { rowAt, useRowVersion } from "../api/rows.ts";
import type { TurnDocument } from "../api/types.ts";
import type { Place } from "../core/forest.ts";
import { bareDigest, count, dollars, duration, shortId, titled } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Agent, Chip } from "../parts/Chip.tsx";
import { Time, Tokens } from "../parts/Figures.tsx";
import { Skeleton } from "../parts/States.tsx";
import { useLater } from "../parts/useLater.ts";
import type { Graph } from "./useGraph.ts";

const WORDS_MAX = 1200;
/** A reader who goes on with `j` asks for none of the turns in between. */
const REST_MS = 90;

/** What the selected turn was, in short. */
export const TurnPanel = memo(function TurnPanel(props: {
  graph: Graph;
  place: Place;
  mark: () => void;
  isMarked: boolean;
}) {
  const { graph, place } = props;
  const { forest, layout } = graph;
  useRowVersion();
  const acts = useActs();
  const offers = useOffered();
  const row = rowAt(forest, place.segment, place.depth);
  const rested = useLater(row?.turn, REST_MS);
  const turn = useQuery({
    queryKey: ["turn", row?.turn],
    queryFn: ({ signal }) => read("/turns/{revision}", { revision: row!.turn }, signal),
    enabled: row !== undefined && row.turn === rested,
    staleTime: Number.POSITIVE_INFINITY,
  }).data;
  if (!row) return <Skeleton label="Reading the turn" />;
  const piece = layout.pieceAt(place.segment, place.depth);
  const standing = layout.turns[piece]! - (place.depth - layout.low[piece]! + 1);
  const sessions = (forest.sessionsAt.get(place.segment) ?? []).filter((one) => one.depth >= place.depth);
  const target = {
    turn: { id: row.turn, digest: bareDigest(row.digest), title: row.title },
    session: sessions[sessions.length - 1]?.label ?? null,
  };
  const reply = turn ? textOf(turn.reply) : "";
  const took = turn ? Date.parse(turn.sealed_at) - Date.parse(turn.started_at) : 0;
  return (
    <>
      <p className="graph-panel-address">
        <span className="mono">{shortId(row.digest)}</span>
        <span>turn {place.depth} of its thread</span>
        {row.kind === "compaction" ? <Chip>compaction</Chip> : null}
        {row.outcome !== "completed" ? <Chip kind="bad">{row.outcome}</Chip> : null}
      </p>
      <h2>{titled(row.title)}</h2>
      <div className="graph-panel-acts">
        <Link to="/t/$turn" params={{ turn: row.turn }} className="button primary">
          Open
        </Link>
        {offers("fork") ? (
          <Button icon={<GitFork aria-hidden="true" />} onClick={() => acts.fork(target)} hotkey="f">
            Fork
          </Button>
        ) : null}
        {offers("rewind") ? (
          <Button icon={<Undo2 aria-hidden="true" />} onClick={() => acts.rewind(target)} hotkey="r">
            Rewind
          </Button>
        ) : null}
        <Button icon={<GitCompareArrows aria-hidden="true" />} onClick={props.mark} hotkey="c">
          {props.isMarked ? "Compare" : "Mark"}
        </Button>
      </div>
      <dl className="graph-panel-facts">
        <dt>
          <Agent agent={row.agent} />
        </dt>
        <dd className="mono">{row.model ?? "no model"}</dd>
        <dt>
          <Time at={row.at_ms} as="moment" />
        </dt>
        <dd>{took > 0 ? duration(took) : ""}</dd>
        <dt>Tokens</dt>
        <dd>
          <Tokens value={row.tokens} bare={true} />
          {turn?.cost ? `, ${dollars(Number(turn.cost))}` : ""}
        </dd>
        <dt>After it</dt>
        <dd>{standing > 0 ? count(standing, "turn") : "nothing"}</dd>
        {sessions.slice(0, 3).map((session) => (
          <div key={session.id} className="graph-panel-session">
            <dt>Leads to</dt>
            <dd>
              <Link to="/s/$label" params={{ label: session.label }} className="mono clip">
                {session.label}
              </Link>
            </dd>
          </div>
        ))}
      </dl>
      {turn && turn.files.length > 0 ? (
        <ul className="graph-panel-files" aria-label="Files">
          {turn.files.slice(0, 8).map((file) => (
            <li key={`${file.use} ${file.path}`}>
              <Chip>{file.use}</Chip>
              <Link
                to="/t/$turn"
                params={{ turn: row.turn }}
                search={{ path: file.path }}
                className="mono clip"
              >
                {file.path}
              </Link>
            </li>
          ))}
        </ul>
      ) : null}
      {turn ? (
        <p className="graph-panel-words">{reply || "The answer has no text."}</p>
      ) : (
        <Skeleton rows={4} />
      )}
    </>
  );
});

/** The words of messages, without tool calls and reasoning. */
function textOf(messages: TurnDocument["reply"]): string {
  const words: string[] = [];
  for (const message of messages) {
    for (const part of message.parts) if (part.kind === "text" && part.text) words.push(part.text);
  }
  const text = words.join("\n\n");
  return text.length > WORDS_MAX ? `${text.slice(0, WORDS_MAX).trimEnd()}…` : text;
}
