/**
 * The shape of a workspace: every segment, session and mark, in columns.
 *
 * A segment is an unbranched stretch of turns. A turn is a pair (segment, depth), so a million
 * turns need no array of a million entries. The forest is a value: `grown` returns a new one.
 */

import type { PauseColumns, ShapeDocument } from "../api/types.ts";

/** Columns of the answer to GET /shape; `parent` and `segment` are segment ids. */
export type ShapeColumns = ShapeDocument;
/** Long gaps inside segments; `depth` is the turn before the gap. Part of GET /shape/activity. */
export type { PauseColumns };

export type MarkKind = "failed" | "stopped" | "compaction" | "tag" | "files";

/** A turn, by its segment's index in the forest. */
export interface Place {
  segment: number;
  depth: number;
}

export interface SessionRow {
  index: number;
  id: string;
  label: string;
  title: string;
  segment: number;
  depth: number;
  agent: number;
  project: number;
  folder: string | null;
  spawnSegment: number;
  spawnDepth: number;
  archived: boolean;
  tool: string | null;
  beganMs: number;
}

export interface Mark {
  depth: number;
  kind: MarkKind;
  name: string | null;
}

export interface Pause {
  depth: number;
  fromMs: number;
  toMs: number;
}

export interface Forest {
  readonly columns: ShapeColumns;
  readonly pauses: PauseColumns;
  readonly position: string;
  readonly turns: number;
  readonly agents: readonly string[];
  readonly projects: readonly string[];
  /** How many segments there are; the columns below have one entry for each. */
  readonly size: number;
  readonly parent: Int32Array;
  readonly parentDepth: Int32Array;
  readonly low: Int32Array;
  readonly high: Int32Array;
  readonly firstMs: Float64Array;
  readonly lastMs: Float64Array;
  readonly agent: Int16Array;
  readonly project: Int16Array;
  readonly firstTurn: readonly string[];
  readonly lastTurn: readonly string[];
  readonly sessions: readonly SessionRow[];
  /** Sessions by the segment that holds their head, the deepest head first. */
  readonly sessionsAt: ReadonlyMap<number, readonly SessionRow[]>;
  /** Marks by segment, in order of depth. */
  readonly marksAt: ReadonlyMap<number, readonly Mark[]>;
  readonly pausesAt: ReadonlyMap<number, readonly Pause[]>;
  readonly turningIds: ReadonlyMap<number, string>;
  /** First turns of subagents, by key, with the turn that spawned them. */
  readonly spawned: ReadonlyMap<number, Place>;
  readonly indexOfId: ReadonlyMap<number, number>;
}

export const EMPTY_SHAPE: ShapeColumns = {
  position: "0",
  whole: true,
  turns: 0,
  agents: [],
  projects: [],
  segments: {
    id: [],
    parent: [],
    parent_depth: [],
    low: [],
    high: [],
    first_ms: [],
    last_ms: [],
    agent: [],
    project: [],
    first_turn: [],
    last_turn: [],
  },
  sessions: {
    id: [],
    label: [],
    title: [],
    segment: [],
    depth: [],
    agent: [],
    project: [],
    folder: [],
    spawn_segment: [],
    spawn_depth: [],
    archived: [],
    tool: [],
    began_ms: [],
  },
  marks: { segment: [], depth: [], kind: [], name: [] },
  turnings: { segment: [], depth: [], turn: [] },
};
const NO_PAUSES: PauseColumns = { segment: [], depth: [], from_ms: [], to_ms: [] };

/** One number for a turn, for maps; turns of one segment are neighbours. */
export const placeKey = (segment: number, depth: number): number => segment * DEPTHS + depth;
export const placeOfKey = (key: number): Place => ({
  segment: Math.floor(key / DEPTHS),
  depth: key % DEPTHS,
});
const DEPTHS = 2 ** 24;

export function forestOf(columns: ShapeColumns, pauses: PauseColumns = NO_PAUSES): Forest {
  const s = columns.segments;
  const size = s.id.length;
  const indexOfId = new Map<number, number>();
  for (let i = 0; i < size; i++) indexOfId.set(s.id[i]!, i);
  const index = (id: number): number => (id < 0 ? -1 : (indexOfId.get(id) ?? -1));
  const parent = new Int32Array(size);
  for (let i = 0; i < size; i++) parent[i] = index(s.parent[i]!);

  const marksAt = new Map<number, Mark[]>();
  const m = columns.marks;
  for (let i = 0; i < m.segment.length; i++) {
    const at = index(m.segment[i]!);
    if (at < 0) continue;
    const mark = { depth: m.depth[i]!, kind: m.kind[i] as MarkKind, name: m.name[i] ?? null };
    push(marksAt, at, mark);
  }
  for (const list of marksAt.values()) list.sort(byDepth);

  const pausesAt = new Map<number, Pause[]>();
  for (let i = 0; i < pauses.segment.length; i++) {
    const at = index(pauses.segment[i]!);
    if (at < 0) continue;
    push(pausesAt, at, { depth: pauses.depth[i]!, fromMs: pauses.from_ms[i]!, toMs: pauses.to_ms[i]! });
  }
  for (const list of pausesAt.values()) list.sort(byDepth);

  const turningIds = new Map<number, string>();
  const t = columns.turnings;
  for (let i = 0; i < t.segment.length; i++) {
    turningIds.set(placeKey(index(t.segment[i]!), t.depth[i]!), t.turn[i]!);
  }

  const c = columns.sessions;
  const sessions: SessionRow[] = c.id.map((id, i) => ({
    index: i,
    id,
    label: c.label[i]!,
    title: c.title[i]!,
    segment: index(c.segment[i]!),
    depth: c.depth[i]!,
    agent: c.agent[i]!,
    project: c.project[i]!,
    folder: c.folder[i] ?? null,
    spawnSegment: index(c.spawn_segment[i]!),
    spawnDepth: c.spawn_depth[i]!,
    archived: c.archived[i]!,
    tool: c.tool[i] ?? null,
    beganMs: c.began_ms[i]!,
  }));
  const sessionsAt = new Map<number, SessionRow[]>();
  for (const session of sessions) {
    if (session.segment >= 0) push(sessionsAt, session.segment, session);
  }
  for (const list of sessionsAt.values()) list.sort((a, b) => b.depth - a.depth);

  const forest = {
    columns,
    pauses,
    position: columns.position,
    turns: columns.turns,
    agents: columns.agents,
    projects: columns.projects,
    size,
    parent,
    parentDepth: Int32Array.from(s.parent_depth),
    low: Int32Array.from(s.low),
    high: Int32Array.from(s.high),
    firstMs: Float64Array.from(s.first_ms),
    lastMs: Float64Array.from(s.last_ms),
    agent: Int16Array.from(s.agent),
    project: Int16Array.from(s.project),
    firstTurn: s.first_turn,
    lastTurn: s.last_turn,
    sessions,
    sessionsAt,
    marksAt,
    pausesAt,
    turningIds,
    spawned: new Map<number, Place>(),
    indexOfId,
  };
  forest.spawned = spawnedIn(forest);
  return forest;
}

/** The forest with a newer answer of GET /shape merged into it. */
export function grown(forest: Forest, more: ShapeColumns): Forest {
  if (more.whole) return forestOf(more);
  if (more.segments.id.length === 0 && more.sessions.id.length === 0) {
    return more.position === forest.position ? forest : { ...forest, position: more.position };
  }
  const old = forest.columns;
  const told = new Set(more.segments.id);
  const agents = [...old.agents];
  const projects = [...old.projects];
  const agentAt = indexesIn(agents, more.agents);
  const projectAt = indexesIn(projects, more.projects);
  const known = <C extends { agent: number[]; project: number[] }>(rows: C): C => ({
    ...rows,
    agent: rows.agent.map((agent) => agentAt[agent] ?? agent),
    project: rows.project.map((project) => projectAt[project] ?? project),
  });
  const segments = merged(old.segments, known(more.segments));
  let turns = 0;
  for (let i = 0; i < segments.id.length; i++) turns += segments.high[i]! - segments.low[i]! + 1;
  return forestOf(
    {
      position: more.position,
      whole: true,
      turns,
      agents,
      projects,
      segments,
      sessions: merged(old.sessions, known(more.sessions)),
      marks: retold(old.marks, more.marks, told),
      turnings: retold(old.turnings, more.turnings, told),
    },
    forest.pauses,
  );
}

/** The forest with the pauses that GET /shape/activity tells. */
export function paused(forest: Forest, pauses: PauseColumns): Forest {
  return forestOf({ ...forest.columns, position: forest.position }, pauses);
}

/** The turn before a turn: the spawning turn for the first turn of a subagent. */
export function parentOf(forest: Forest, { segment, depth }: Place): Place | null {
  const spawn = forest.spawned.get(placeKey(segment, depth));
  if (spawn) return spawn;
  if (depth > forest.low[segment]!) return { segment, depth: depth - 1 };
  const parent = forest.parent[segment]!;
  return parent < 0 ? null : { segment: parent, depth: forest.parentDepth[segment]! };
}

/** The stretches of a thread from a turn back to its root, newest first. */
export function threadOf(forest: Forest, from: Place): { segment: number; low: number; high: number }[] {
  const stretches: { segment: number; low: number; high: number }[] = [];
  const seen = new Set<number>();
  let at: Place | null = from;
  while (at) {
    const key = placeKey(at.segment, at.depth);
    if (seen.has(key)) break;
    seen.add(key);
    const low = forest.low[at.segment]!;
    stretches.push({ segment: at.segment, low, high: at.depth });
    at = parentOf(forest, { segment: at.segment, depth: low });
  }
  return stretches;
}

/** How many turns have more than one branch after them; subagents are no branches. */
export function countForks(forest: Forest): number {
  const branches = new Map<number, number>();
  for (let s = 0; s < forest.size; s++) {
    const parent = forest.parent[s]!;
    if (parent < 0 || forest.spawned.has(placeKey(s, forest.low[s]!))) continue;
    const depth = forest.parentDepth[s]!;
    const key = placeKey(parent, depth);
    const goesOn = depth < forest.high[parent]! && !forest.spawned.has(placeKey(parent, depth + 1));
    branches.set(key, (branches.get(key) ?? Number(goesOn)) + 1);
  }
  let forks = 0;
  for (const count of branches.values()) if (count > 1) forks++;
  return forks;
}

/** The title of the newest session that ends in a segment, or null. */
export function titleOfSegment(forest: Forest, segment: number): string | null {
  return forest.sessionsAt.get(segment)?.find((session) => session.title)?.title ?? null;
}

/**
 * When a turn began, as far as the shape knows: the ends of segments and pauses are exact, what
 * lies between them is spread evenly. A turn ends where `timeOf` its successor would begin.
 */
export function timeOf(forest: Forest, segment: number, depth: number): number {
  const [d0, d1, t0, t1] = stretchAt(forest, segment, depth);
  return t0 + ((t1 - t0) * (depth - d0)) / (d1 - d0 + 1);
}

export function endOf(forest: Forest, segment: number, depth: number): number {
  const [d0, d1, t0, t1] = stretchAt(forest, segment, depth);
  return t0 + ((t1 - t0) * (depth + 1 - d0)) / (d1 - d0 + 1);
}

/** The busy stretch of a segment that holds a turn: both depths, begin and end. */
function stretchAt(forest: Forest, segment: number, depth: number): [number, number, number, number] {
  let d0 = forest.low[segment]!;
  let t0 = forest.firstMs[segment]!;
  for (const pause of forest.pausesAt.get(segment) ?? []) {
    if (depth <= pause.depth) return [d0, pause.depth, t0, pause.fromMs];
    d0 = pause.depth + 1;
    t0 = pause.toMs;
  }
  return [d0, forest.high[segment]!, t0, forest.lastMs[segment]!];
}

/** The first turn of each subagent with the turn that spawned it, as `log --graph` finds it. */
function spawnedIn(forest: Forest): Map<number, Place> {
  const links = new Map<number, Place>();
  for (const session of forest.sessions) {
    if (session.spawnSegment < 0 || session.segment < 0) continue;
    const spawn = { segment: session.spawnSegment, depth: session.spawnDepth };
    let { segment, depth } = session;
    while (segment !== spawn.segment || depth !== spawn.depth) {
      const low = forest.low[segment]!;
      if (segment === spawn.segment && spawn.depth >= low && spawn.depth < depth) {
        links.set(placeKey(segment, spawn.depth + 1), spawn);
        break;
      }
      const parent = forest.parent[segment]!;
      const isFirst = parent === spawn.segment && forest.parentDepth[segment] === spawn.depth;
      if (parent < 0 || isFirst) {
        links.set(placeKey(segment, low), spawn);
        break;
      }
      depth = forest.parentDepth[segment]!;
      segment = parent;
    }
  }
  return links;
}

const byDepth = (a: { depth: number }, b: { depth: number }): number => a.depth - b.depth;

function push<T>(lists: Map<number, T[]>, key: number, item: T): void {
  const list = lists.get(key);
  if (list) list.push(item);
  else lists.set(key, [item]);
}

type Columns<C> = { [K in keyof C]: unknown[] };

/** Where names stand in a list; those that it lacks are appended. An answer numbers only the names it has. */
function indexesIn(list: string[], names: readonly string[]): number[] {
  return names.map((name) => {
    const at = list.indexOf(name);
    return at < 0 ? list.push(name) - 1 : at;
  });
}

/** Rows of `more` replace the rows of `old` that have the same id; the others are appended. */
function merged<C extends Columns<C> & { id: unknown[] }>(old: C, more: C): C {
  if (more.id.length === 0) return old;
  const names = Object.keys(old) as (keyof C)[];
  const result = {} as C;
  for (const name of names) result[name] = old[name].slice() as C[keyof C];
  const place = new Map<unknown, number>();
  for (let i = 0; i < old.id.length; i++) place.set(old.id[i], i);
  for (let i = 0; i < more.id.length; i++) {
    const at = place.get(more.id[i]) ?? result.id.length;
    place.set(more.id[i], at);
    for (const name of names) result[name][at] = more[name][i];
  }
  return result;
}

/** Rows of the segments that are told anew come from `more`, the others from `old`. */
function retold<C extends Columns<C> & { segment: number[] }>(old: C, more: C, told: ReadonlySet<number>): C {
  const names = Object.keys(old) as (keyof C)[];
  const keeps = old.segment.map((id) => !told.has(id));
  const result = {} as C;
  for (const name of names) {
    result[name] = [...old[name].filter((_, i) => keeps[i]), ...more[name]] as C[keyof C];
  }
  return result;
}
