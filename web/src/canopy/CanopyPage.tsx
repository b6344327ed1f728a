import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { Sprout } from "lucide-react";
import { useEffect, useMemo } from "react";
import { read } from "../api/client.ts";
import { type Activity, refreshForest, useForest } from "../api/forest.ts";
import { IS_SHARED } from "../api/place.ts";
import { agentName, toneOf } from "../core/agents.ts";
import { countForks, type Forest } from "../core/forest.ts";
import { count, dollars, figure, short } from "../core/format.ts";
import { Dot } from "../parts/Chip.tsx";
import { useTitle } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { usePaused } from "../parts/usePaused.ts";
import { Begin } from "../shell/Begin.tsx";
import { CanopyField } from "./CanopyField.tsx";
import { lightWords } from "./lightWords.ts";
import "./canopy.css";

/** Up to this many turns every figure is there at once. */
const SMALL_TURNS_MAX = 5_000;
const PAUSE_MS = 2_500;

export default function CanopyPage() {
  useTitle("Canopy");
  const { forest, activity, error } = useForest();
  if (!forest) {
    return (
      <div className="page">
        <h1 className="visually-hidden">Canopy</h1>
        {error ? (
          <Failure error={error} retry={() => void refreshForest()} />
        ) : (
          <Skeleton label="Reading your history" />
        )}
      </div>
    );
  }
  if (forest.turns === 0) return <NoTurns />;
  return <Canopy forest={forest} activity={activity} />;
}

function NoTurns() {
  return (
    <div className="page">
      <h1 className="visually-hidden">Canopy</h1>
      <Empty icon={<Sprout aria-hidden="true" />} title="No turns yet" action={<Begin />}>
        {IS_SHARED
          ? "Send a first message, or ask an admin to import sessions into this workspace. What happens here appears by itself."
          : "Import the sessions of your agents, and half a year of work becomes one picture. Nothing leaves this machine."}
      </Empty>
    </div>
  );
}

function Canopy({ forest, activity }: { forest: Forest; activity: Activity | null }) {
  const { q } = useSearch({ strict: false });
  useEffect(() => {
    if (q) lightWords(q);
  }, [q]);
  return (
    <div className="canopy">
      <Headline forest={forest} />
      <CanopyField forest={forest} activity={activity} legend={<Legend forest={forest} />} />
    </div>
  );
}

function Headline({ forest }: { forest: Forest }) {
  const hasPaused = usePaused(PAUSE_MS);
  // What it cost is a scan of every call: it comes after the picture, and never while the reader types.
  const { data: costs, isLoading } = useQuery({
    queryKey: ["costs", "all"],
    queryFn: ({ signal }) => read("/costs", { sessions: false }, signal),
    enabled: hasPaused || forest.turns <= SMALL_TURNS_MAX,
    staleTime: 300_000,
  });
  const sums = useMemo(() => {
    if (!costs) return null;
    let tokens = 0;
    let cost = 0;
    let isPriced = false;
    for (const row of costs.rows) {
      tokens += row.input + row.cached + row.output;
      if (row.cost !== null) {
        cost += Number(row.cost);
        isPriced = true;
      }
    }
    return { tokens, cost: isPriced ? cost : null, isPartly: costs.unknown.length > 0 };
  }, [costs]);
  const forks = useMemo(() => countForks(forest), [forest]);
  const agents = useMemo(() => new Set(forest.agent).size, [forest]);
  const items = [
    { name: "Sessions", value: figure(forest.sessions.length) },
    { name: "Forks", value: figure(forks) },
    ...(sums?.tokens
      ? [{ name: "Tokens, each once", value: short(sums.tokens), title: `${figure(sums.tokens)} tokens` }]
      : []),
    ...(sums?.cost
      ? [{ name: sums.isPartly ? "At known prices" : "At list prices", value: dollars(sums.cost) }]
      : []),
  ];
  return (
    <header className="canopy-head">
      <h1>
        <b>{count(forest.turns, "turn")}</b> with {count(agents, "agent")}, in one picture.
      </h1>
      <dl className="figures" aria-busy={isLoading}>
        {items.map((item) => (
          <div key={item.name} title={"title" in item ? item.title : undefined}>
            <dt>{item.name}</dt>
            <dd>{item.value}</dd>
          </div>
        ))}
      </dl>
    </header>
  );
}

function Legend({ forest }: { forest: Forest }) {
  const agents = useMemo(() => {
    const turns = new Float64Array(forest.agents.length);
    for (let s = 0; s < forest.size; s++) turns[forest.agent[s]!]! += forest.high[s]! - forest.low[s]! + 1;
    return forest.agents
      .map((agent, i) => ({ agent, turns: turns[i]! }))
      .filter((one) => one.turns > 0)
      .sort((a, b) => b.turns - a.turns);
  }, [forest]);
  return (
    <ul className="canopy-agents" aria-label="Turns by agent">
      {agents.slice(0, 8).map(({ agent, turns }) => (
        <li key={agent} className={`tone-${toneOf(agent)}`}>
          <Link to="/graph" search={{ agent }} title={`Show the trees of ${agentName(agent)} in the graph`}>
            <Dot />
            {agentName(agent)} <span className="faint">{short(turns)}</span>
          </Link>
        </li>
      ))}
    </ul>
  );
}
