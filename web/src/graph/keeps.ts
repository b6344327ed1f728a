/** Which trees the filters of the graph keep. */
import { type Forest, timeOf } from "../core/forest.ts";
import type { Layout } from "../core/layout.ts";

export interface Filters {
  project: string;
  agent: string;
  isFailed: boolean;
  label: string;
}

/** Roots of the trees that match, or null if every tree does. */
export function keptTrees(forest: Forest, layout: Layout, filters: Filters): ReadonlySet<number> | null {
  const { project, agent, isFailed, label } = filters;
  if (!project && !agent && !isFailed && !label) return null;
  const rootOf = (segment: number): number => layout.root[layout.pieceAt(segment, forest.low[segment]!)]!;
  const tests: Set<number>[] = [];
  const test = (fill: (add: (segment: number) => void) => void): void => {
    const roots = new Set<number>();
    fill((segment) => roots.add(rootOf(segment)));
    tests.push(roots);
  };
  if (project) {
    test((add) => {
      for (let s = 0; s < forest.size; s++) if (forest.projects[forest.project[s]!] === project) add(s);
    });
  }
  if (agent) {
    test((add) => {
      for (let s = 0; s < forest.size; s++) if (forest.agents[forest.agent[s]!] === agent) add(s);
    });
  }
  if (isFailed) {
    test((add) => {
      for (const [segment, marks] of forest.marksAt) {
        if (marks.some((mark) => mark.kind === "failed" || mark.kind === "stopped")) add(segment);
      }
    });
  }
  if (label) {
    const words = label.toLowerCase();
    test((add) => {
      for (const session of forest.sessions) {
        const isNamed =
          session.label.toLowerCase().includes(words) || session.title.toLowerCase().includes(words);
        if (isNamed && session.segment >= 0) add(session.segment);
      }
    });
  }
  const [first, ...rest] = tests;
  return new Set([...first!].filter((root) => rest.every((roots) => roots.has(root))));
}

/** When the newest turn of a tree was taken, by root. */
export function newestOf(forest: Forest, layout: Layout): Map<number, number> {
  const newest = new Map<number, number>();
  for (let s = 0; s < forest.size; s++) {
    const root = layout.root[layout.pieceAt(s, forest.low[s]!)]!;
    const at = Math.max(forest.lastMs[s]!, timeOf(forest, s, forest.high[s]!));
    if (at > (newest.get(root) ?? 0)) newest.set(root, at);
  }
  return newest;
}
