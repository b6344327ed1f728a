import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { CircleDollarSign, X } from "lucide-react";
import { lazy, Suspense, useMemo } from "react";
import { read } from "../api/client.ts";
import type { CostTable } from "../api/types.ts";
import { agentName, TONES, toneOf } from "../core/agents.ts";
import { count, dollars, figure, short } from "../core/format.ts";
import {
  cachedShare,
  daysOf,
  GROUPINGS,
  type Group,
  type Grouping,
  groupsOf,
  type Measure,
  seriesOf,
  spentWithin,
  statsCommand,
  tokensOf,
  totalOf,
} from "../core/spending.ts";
import { Button } from "../parts/Button.tsx";
import { Dot } from "../parts/Chip.tsx";
import { Command } from "../parts/Command.tsx";
import { Figures } from "../parts/Figures.tsx";
import { Page } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import type { Address } from "../shell/address.ts";
import { Begin } from "../shell/Begin.tsx";
import "./costs.css";

const Plot = lazy(() => import("./Plot.tsx"));
const LINES_MAX = 7;
/** One bar alone says nothing about days. */
const DAYS_MIN = 14;

/** Tokens and money by day; a range is chosen by drawing over the days. */
export default function CostsPage() {
  const answer = useQuery({
    queryKey: ["costs"],
    queryFn: ({ signal }) => read("/costs", {}, signal),
  });
  if (answer.isPending) {
    return (
      <Page title="Costs">
        <Skeleton rows={10} label="Adding up every call" />
      </Page>
    );
  }
  if (answer.isError) {
    return (
      <Page title="Costs" quiet>
        <Failure error={answer.error} retry={() => void answer.refetch()} />
      </Page>
    );
  }
  if (answer.data.rows.length === 0) {
    return (
      <Page title="Costs" quiet>
        <Empty title="No model calls yet" icon={<CircleDollarSign aria-hidden="true" />} action={<Begin />}>
          Imported sessions bring the tokens of each call. Turntree carries a table of list prices, so nothing
          is asked over the network.
        </Empty>
      </Page>
    );
  }
  return <Costs table={answer.data} />;
}

function Costs({ table }: { table: CostTable }) {
  const address: Address = useSearch({ strict: false });
  const navigate = useNavigate();
  const by: Grouping = GROUPINGS.find((grouping) => grouping === address.by) ?? "agent";
  const change = (part: Address) =>
    void navigate({ to: "/costs", search: (before: Address) => ({ ...before, ...part }), replace: true });

  const { agent, model, project, session, from, to } = address;
  const named = useMemo(
    () => spentWithin(table.rows, { agent, model, project, session }),
    [table, agent, model, project, session],
  );
  const rows = useMemo(() => spentWithin(named, { from, to }), [named, from, to]);
  const total = useMemo(() => totalOf(rows), [rows]);
  const groups = useMemo(() => groupsOf(rows, by), [rows, by]);
  const days = useMemo(() => daysOf(named, DAYS_MIN), [named]);
  const isPriced = total.unknownCalls < total.calls;
  const measure: Measure = address.view === "tokens" || !isPriced ? "tokens" : "cost";
  // Colours stay with their names while a range is drawn.
  const names = useMemo(
    () =>
      groupsOf(named, by)
        .slice(0, LINES_MAX)
        .map((group) => group.name),
    [named, by],
  );
  const series = useMemo(() => seriesOf(named, by, names, days, measure), [named, by, names, days, measure]);
  const lines = [...names, null].map((name, index) => ({
    name: name === null ? "the rest" : nameOf(name, by),
    tone: name === null ? null : toneAt(name, by, index),
    values: series[index] ?? [],
  }));
  const share = cachedShare(total);

  return (
    <Page
      title="Costs"
      className="costs"
      aside={
        <Figures
          items={[
            {
              name: "At list prices",
              value: isPriced ? dollars(total.cost) : "unknown",
              title: table.prices ?? undefined,
            },
            { name: "Tokens, each once", value: short(tokensOf(total)), title: figure(tokensOf(total)) },
            { name: "Read from cache", value: share === null ? "–" : `${Math.round(share * 100)} %` },
            { name: "Model calls", value: short(total.calls), title: figure(total.calls) },
          ]}
        />
      }
    >
      <div className="cost-bar">
        <div className="segments" role="group" aria-label="Group by">
          {GROUPINGS.map((grouping) => (
            <Button
              key={grouping}
              kind="quiet"
              aria-pressed={grouping === by}
              onClick={() => change({ by: grouping })}
            >
              By {grouping}
            </Button>
          ))}
        </div>
        <div className="segments" role="group" aria-label="Measure">
          <Button
            kind="quiet"
            aria-pressed={measure === "cost"}
            disabled={!isPriced}
            onClick={() => change({ view: undefined })}
          >
            Dollars
          </Button>
          <Button kind="quiet" aria-pressed={measure === "tokens"} onClick={() => change({ view: "tokens" })}>
            Tokens
          </Button>
        </div>
        <div className="range">
          <label>
            From
            <input
              type="date"
              value={from ?? ""}
              min={days[0]}
              max={days.at(-1)}
              onChange={(event) => change({ from: event.target.value || undefined })}
            />
          </label>
          <label>
            to
            <input
              type="date"
              value={to ?? ""}
              min={days[0]}
              max={days.at(-1)}
              onChange={(event) => change({ to: event.target.value || undefined })}
            />
          </label>
        </div>
      </div>
      <Filters address={address} change={change} />
      <Suspense fallback={<div className="plot" aria-busy="true" />}>
        <Plot
          days={days}
          lines={lines}
          measure={measure}
          from={from}
          to={to}
          choose={(first, last) => change({ from: first, to: last })}
        />
      </Suspense>
      <Unknown total={total.unknownCalls} tokens={total.unknownTokens} table={table} />
      <Groups groups={groups} by={by} names={names} choose={(name) => change({ [by]: name })} />
      <p className="costs-foot">
        {table.prices ? <span>Prices: {table.prices}. Days are in UTC.</span> : null}
        <Command line={statsCommand(by, from, to)} label="for these costs" />
      </p>
    </Page>
  );
}

function Filters(props: { address: Address; change: (part: Address) => void }) {
  const { address, change } = props;
  const active = GROUPINGS.filter((name) => address[name]);
  if (active.length === 0 && !address.from && !address.to) return null;
  return (
    <p className="cost-filters">
      {active.map((name) => (
        <Button key={name} onClick={() => change({ [name]: undefined })}>
          {nameOf(address[name] ?? "", name)}
          <X aria-hidden="true" />
          <span className="visually-hidden">, remove this filter</span>
        </Button>
      ))}
      {address.from || address.to ? (
        <Button onClick={() => change({ from: undefined, to: undefined })}>
          {address.from && address.from === address.to
            ? address.from
            : `${address.from ?? "the first day"} to ${address.to ?? "the last"}`}
          <X aria-hidden="true" />
          <span className="visually-hidden">, show all days</span>
        </Button>
      ) : null}
    </p>
  );
}

function Unknown(props: { total: number; tokens: number; table: CostTable }) {
  if (props.total === 0) return null;
  const models = props.table.unknown.map((entry) => entry.model).join(", ");
  return (
    <p className="cost-unknown">
      <b>{count(props.total, "call")}</b> with {short(props.tokens)} tokens{" "}
      {props.total === 1 ? "has" : "have"} no known price, and no dollar figure includes{" "}
      {props.total === 1 ? "it" : "them"}
      {models ? `: ${models}` : ""}.
    </p>
  );
}

function Groups(props: {
  groups: readonly Group[];
  by: Grouping;
  names: readonly string[];
  choose: (name: string) => void;
}) {
  const { groups, by, names } = props;
  const top = Math.max(...groups.map((group) => group.cost), 0);
  const most = Math.max(...groups.map(tokensOf), 1);
  return (
    <div className="cost-table" tabIndex={0} role="region" aria-label={`Costs by ${by}`}>
      <table>
        <thead>
          <tr>
            <th scope="col">{by[0]?.toUpperCase() + by.slice(1)}</th>
            <th scope="col">
              <span className="visually-hidden">Share</span>
            </th>
            <th scope="col">Cost</th>
            <th scope="col">Calls</th>
            <th scope="col">Read anew</th>
            <th scope="col">From cache</th>
            <th scope="col">Written</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group) => {
            const at = names.indexOf(group.name);
            const part = top > 0 ? group.cost / top : tokensOf(group) / most;
            return (
              <tr key={group.name} className={at < 0 ? "" : `tone-${toneAt(group.name, by, at)}`}>
                <th scope="row">
                  <Dot />
                  {by === "session" && group.name ? (
                    <Link to="/s/$label" params={{ label: group.name }} className="mono clip">
                      {group.name}
                    </Link>
                  ) : group.name ? (
                    <button type="button" className="clip" onClick={() => props.choose(group.name)}>
                      {nameOf(group.name, by)}
                    </button>
                  ) : (
                    <span className="faint">{nameOf(group.name, by)}</span>
                  )}
                </th>
                <td className="share">
                  {part > 0 ? (
                    <i style={{ width: `${Math.max(1, part * 100)}%` }} aria-hidden="true" />
                  ) : null}
                </td>
                <td>{costOf(group)}</td>
                <td>{figure(group.calls)}</td>
                <td>{short(group.input)}</td>
                <td>{short(group.cached)}</td>
                <td>{short(group.output)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function costOf(group: Group): string {
  if (group.unknownCalls === 0) return dollars(group.cost);
  return group.unknownCalls === group.calls ? "unknown" : `${dollars(group.cost)} + unknown`;
}

function nameOf(name: string, by: Grouping): string {
  if (!name) return by === "session" ? "In no session" : `No ${by}`;
  return by === "agent" ? agentName(name) : name;
}

/** An agent keeps its colour; other names take theirs by rank. */
function toneAt(name: string, by: Grouping, rank: number): number {
  return by === "agent" ? toneOf(name) : rank % TONES;
}
