import { expect, test } from "vitest";
import { EMPTY_SHAPE, grown } from "./forest.ts";
import { sampleForest } from "./sampleForest.ts";

const turn = { parent: 0, shape: 50, mark: 50 };
const root = { ...turn, shape: 2 };

test("an answer numbers its own agents and projects", () => {
  const { forest, columns } = sampleForest([turn, root, turn]);
  const last = forest.size - 1;
  const segments = structuredClone(EMPTY_SHAPE.segments);
  for (const name of Object.keys(segments) as (keyof typeof segments)[])
    (segments[name] as unknown[]).push(columns.segments[name][last]);
  const first = { ...segments, agent: [0], project: [0] };
  const answer = { ...structuredClone(EMPTY_SHAPE), position: "2", whole: false };
  const told = (agents: string[], projects: string[]) => {
    const after = grown(forest, { ...answer, agents, projects, segments: first });
    return [
      after.agents[after.agent[last]!],
      after.projects[after.project[last]!],
      after.agents[after.agent[0]!],
    ];
  };
  expect(told(["codex"], ["api"])).toEqual(["codex", "api", "claude-code"]);
  expect(told(["cursor", "codex", "gemini"], ["new", "shop", "api"])).toEqual([
    "cursor",
    "new",
    "claude-code",
  ]);
  expect(forest.agents).toEqual(["claude-code", "codex"]);
});
