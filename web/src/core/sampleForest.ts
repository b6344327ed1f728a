/** Random forests for tests: turns one by one, and the same turns as columns. */
import { EMPTY_SHAPE, type Forest, forestOf, type Place, type ShapeColumns } from "./forest.ts";

export interface SampleTurn {
  id: string;
  parent: number;
  spawn: boolean;
  stays: boolean;
}

export interface Sample {
  turns: SampleTurn[];
  places: Place[];
  columns: ShapeColumns;
  forest: Forest;
}

/** What a generator chooses for one turn: its parent by a number, and two coins. */
export interface Choice {
  parent: number;
  shape: number;
  mark: number;
}

const START = Date.UTC(2026, 5, 1);

export function sampleForest(choices: readonly Choice[]): Sample {
  const turns: SampleTurn[] = [];
  const places: Place[] = [];
  const columns = structuredClone(EMPTY_SHAPE);
  const { segments, sessions, marks, turnings } = columns;
  columns.agents = ["claude-code", "codex"];
  columns.projects = ["shop", "api"];
  const spawned: [turn: number, by: number][] = [];
  choices.forEach((choice, i) => {
    const id = `t${String(i).padStart(6, "0")}`;
    // Mostly the turn before: forests of real work are long chains.
    const parent = i === 0 || choice.shape < 6 ? -1 : choice.shape < 70 ? i - 1 : choice.parent % i;
    const isRootOfSubagent = i > 0 && parent < 0 && choice.shape % 2 === 1;
    const isForkOfSubagent = parent >= 0 && choice.shape > 94;
    const drawnUnder = isRootOfSubagent ? choice.parent % i : parent;
    const at = parent < 0 ? null : places[parent]!;
    const continues = at !== null && segments.high[at.segment] === at.depth;
    const ms = START + i * 60_000;
    let place: Place;
    if (continues) {
      place = { segment: at.segment, depth: at.depth + 1 };
      segments.high[at.segment] = place.depth;
      segments.last_ms[at.segment] = ms + 30_000;
      segments.last_turn[at.segment] = id;
    } else {
      place = { segment: segments.id.length, depth: at ? at.depth + 1 : 1 };
      segments.id.push(place.segment);
      segments.parent.push(at ? at.segment : -1);
      segments.parent_depth.push(at ? at.depth : 0);
      segments.low.push(place.depth);
      segments.high.push(place.depth);
      segments.first_ms.push(ms);
      segments.last_ms.push(ms + 30_000);
      segments.agent.push(i % 2);
      segments.project.push(at ? segments.project[at.segment]! : i % 2);
      segments.first_turn.push(id);
      segments.last_turn.push(id);
    }
    const spawn = isRootOfSubagent || isForkOfSubagent;
    const stays = choice.mark < 8;
    if (stays) {
      marks.segment.push(place.segment);
      marks.depth.push(place.depth);
      marks.kind.push((["failed", "stopped", "compaction", "tag"] as const)[choice.mark % 4]!);
      marks.name.push(null);
    }
    turns.push({ id, parent: drawnUnder, spawn, stays });
    places.push(place);
    if (spawn) spawned.push([i, drawnUnder]);
  });
  for (const [turn, by] of spawned) {
    const at = places[turn]!;
    turns[turn]!.stays = true;
    sessions.id.push(`s${turn}`);
    sessions.label.push(`subagent-${turn}`);
    sessions.title.push("Look into it");
    sessions.segment.push(at.segment);
    sessions.depth.push(at.depth);
    sessions.agent.push(0);
    sessions.project.push(0);
    sessions.folder.push(null);
    sessions.spawn_segment.push(places[by]!.segment);
    sessions.spawn_depth.push(places[by]!.depth);
    sessions.archived.push(false);
    sessions.tool.push(null);
    sessions.began_ms.push(START);
  }
  const after = new Map<string, number>();
  places.forEach((place, i) => {
    after.set(`${place.segment}.${place.depth}`, i);
  });
  places.forEach((place) => {
    const next = after.get(`${place.segment}.${place.depth + 1}`);
    if (next === undefined) return;
    turnings.segment.push(place.segment);
    turnings.depth.push(place.depth + 1);
    turnings.turn.push(turns[next]!.id);
  });
  columns.turns = turns.length;
  return { turns, places, columns, forest: forestOf(columns) };
}
