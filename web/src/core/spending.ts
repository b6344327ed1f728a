/** What model calls used and cost, added up in the ways that the costs page shows. An unknown price is never zero. */
import type { CostRow } from "../api/types.ts";

/** One row of the answer to GET /costs. `input` was read anew; tokens from the cache are apart. */
export type Spent = CostRow;

export const GROUPINGS = ["agent", "model", "project", "session"] as const;
export type Grouping = (typeof GROUPINGS)[number];

export interface Total {
  calls: number;
  input: number;
  cached: number;
  output: number;
  /** Of the calls whose price is known. */
  cost: number;
  unknownCalls: number;
  unknownTokens: number;
}

export interface Group extends Total {
  /** Empty for what belongs to no project or session. */
  name: string;
}

export interface Filter {
  from?: string;
  to?: string;
  agent?: string;
  model?: string;
  project?: string;
  session?: string;
}

export type Measure = "cost" | "tokens";

/** The rows inside a range of days that agree with every given name. */
export function spentWithin<T extends Spent>(rows: readonly T[], filter: Filter): T[] {
  return rows.filter(
    (row) =>
      (!filter.from || row.day >= filter.from) &&
      (!filter.to || row.day <= filter.to) &&
      GROUPINGS.every((name) => !filter[name] || row[name] === filter[name]),
  );
}

export function totalOf(rows: readonly Spent[]): Total {
  const total = { ...NOTHING };
  for (const row of rows) add(total, row);
  return total;
}

/** One group for each name, the dearest first; without any price, the largest. */
export function groupsOf(rows: readonly Spent[], by: Grouping): Group[] {
  const groups = new Map<string, Group>();
  for (const row of rows) {
    const name = row[by] ?? "";
    let group = groups.get(name);
    if (!group) {
      group = { name, ...NOTHING };
      groups.set(name, group);
    }
    add(group, row);
  }
  return [...groups.values()].sort(
    (a, b) => b.cost - a.cost || tokensOf(b) - tokensOf(a) || (a.name < b.name ? -1 : 1),
  );
}

/** Every day from the first row to the last, so that quiet days take room too; at least so many. */
export function daysOf(rows: readonly Spent[], atLeast = 0): string[] {
  let first = "";
  let last = "";
  for (const { day } of rows) {
    if (!first || day < first) first = day;
    if (day > last) last = day;
  }
  const days: string[] = [];
  const end = Date.parse(last);
  for (let at = Math.min(Date.parse(first), end - (atLeast - 1) * DAY_MS); at <= end; at += DAY_MS) {
    days.push(new Date(at).toISOString().slice(0, 10));
  }
  return days;
}

/** For each name a value a day; what has no name among them comes last, as the rest. */
export function seriesOf(
  rows: readonly Spent[],
  by: Grouping,
  names: readonly string[],
  days: readonly string[],
  measure: Measure,
): number[][] {
  const indexOfDay = new Map(days.map((day, index) => [day, index]));
  const indexOfName = new Map(names.map((name, index) => [name, index]));
  const series = Array.from({ length: names.length + 1 }, () => new Array<number>(days.length).fill(0));
  for (const row of rows) {
    const day = indexOfDay.get(row.day);
    const line = series[indexOfName.get(row[by] ?? "") ?? names.length];
    if (day === undefined || !line) continue;
    line[day] =
      (line[day] ?? 0) + (measure === "cost" ? (row.cost ?? 0) : row.input + row.cached + row.output);
  }
  return series;
}

/** The command that prints the same days; it ends before a moment, and a project is the sum of its sessions. */
export function statsCommand(by: Grouping, from?: string, to?: string): string {
  const words = ["turntree stats", `--by ${by === "project" ? "session" : by}`];
  if (from) words.push(`--since ${from}`);
  if (to) words.push(`--until ${new Date(Date.parse(to) + DAY_MS).toISOString().slice(0, 10)}`);
  return words.join(" ");
}

export function tokensOf(total: Pick<Total, "input" | "cached" | "output">): number {
  return total.input + total.cached + total.output;
}

/** The part of what models read that came from a cache, 0 to 1. */
export function cachedShare(total: Pick<Total, "input" | "cached">): number | null {
  const read = total.input + total.cached;
  return read === 0 ? null : total.cached / read;
}

const DAY_MS = 86_400_000;
const NOTHING: Total = {
  calls: 0,
  input: 0,
  cached: 0,
  output: 0,
  cost: 0,
  unknownCalls: 0,
  unknownTokens: 0,
};

function add(total: Total, row: Spent): void {
  total.calls += row.calls;
  total.input += row.input;
  total.cached += row.cached;
  total.output += row.output;
  if (row.cost === null) {
    total.unknownCalls += row.calls;
    total.unknownTokens += row.input + row.cached + row.output;
  } else {
    total.cost += row.cost;
  }
}
