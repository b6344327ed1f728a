/** The spine of a thread as rows: its turns, the branches that leave them, and gaps where nothing branches. */
import type { Spine, Turn } from "./wire.ts";

export type OutlineRow =
  | {
      is: "turn";
      depth: number;
      title: string;
      kind: string;
      outcome: string;
      agent: string | null;
      isHead: boolean;
    }
  | { is: "gap"; from: number; to: number }
  | {
      is: "branch";
      turn: string;
      label: string | null;
      title: string;
      turns: number;
      agent: string;
      depth: number;
    };

/** Up to this many turns every one has its row. */
const ALL_TURNS_MAX = 100;
/** A gap shorter than this is shown as its turns, if they are known. */
const GAP_MIN = 3;
const AROUND = 2;

export function outlineOf(
  spine: Pick<Spine, "nodes" | "branches">,
  turns: ReadonlyMap<number, Turn>,
  total: number,
  here: number,
): OutlineRow[] {
  const nodes = new Map(spine.nodes.map((node) => [node.depth, node]));
  const branches = new Map<number, Spine["branches"][number][]>();
  for (const branch of spine.branches)
    branches.set(branch.from_depth, [...(branches.get(branch.from_depth) ?? []), branch]);
  const shown = new Set<number>([...nodes.keys(), ...branches.keys(), 1, total]);
  if (total <= ALL_TURNS_MAX) for (let depth = 1; depth <= total; depth++) shown.add(depth);
  else
    for (let depth = here - AROUND; depth <= here + AROUND; depth++) if (turns.has(depth)) shown.add(depth);
  const depths = [...shown].filter((depth) => depth >= 1 && depth <= total).sort((a, b) => a - b);
  const rows: OutlineRow[] = [];
  let last = 0;
  for (const depth of depths) {
    if (depth - last > 1) {
      const isShort = depth - last - 1 < GAP_MIN;
      if (isShort) for (let between = last + 1; between < depth; between++) rows.push(turnRow(between));
      else rows.push({ is: "gap", from: last + 1, to: depth - 1 });
    }
    rows.push(turnRow(depth));
    for (const branch of branches.get(depth) ?? [])
      rows.push({
        is: "branch",
        turn: branch.turn,
        label: branch.label,
        title: branch.title,
        turns: branch.turns,
        agent: branch.agent,
        depth,
      });
    last = depth;
  }
  return rows;

  function turnRow(depth: number): OutlineRow {
    const turn = turns.get(depth);
    const node = nodes.get(depth);
    return {
      is: "turn",
      depth,
      title: turn?.title ?? node?.title ?? `Turn ${depth}`,
      kind: turn?.kind ?? node?.kind ?? "normal",
      outcome: turn?.outcome ?? node?.outcome ?? "completed",
      agent: turn?.agent ?? null,
      isHead: depth === total,
    };
  }
}

/** Depths of the turns where branches leave, in order. */
export function forksOf(spine: Pick<Spine, "branches">): number[] {
  return [...new Set(spine.branches.map((branch) => branch.from_depth))].sort((a, b) => a - b);
}
