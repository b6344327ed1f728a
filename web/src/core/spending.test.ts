import fc from "fast-check";
import { expect, test } from "vitest";
import {
  cachedShare,
  daysOf,
  groupsOf,
  type Spent,
  seriesOf,
  spentWithin,
  statsCommand,
  tokensOf,
  totalOf,
} from "./spending.ts";

const row = (part: Partial<Spent>): Spent => ({
  day: "2026-11-02",
  agent: "codex",
  model: "gpt",
  project: "shop",
  session: "codex/shop/a",
  calls: 1,
  input: 10,
  cached: 90,
  output: 5,
  cost: 0.5,
  ...part,
});
const anyRow = fc.record({
  day: fc.constantFrom("2026-10-30", "2026-11-01", "2026-11-04"),
  agent: fc.constantFrom("codex", "cursor"),
  model: fc.constantFrom("a", "b", "c"),
  project: fc.constantFrom("x", null),
  session: fc.constantFrom("s", null),
  calls: fc.nat(9),
  input: fc.nat(999),
  cached: fc.nat(999),
  output: fc.nat(999),
  cost: fc.constantFrom(null, 0, 0.25, 2),
});

test("a call without a price is counted apart, never as zero dollars", () => {
  const total = totalOf([row({}), row({ cost: null, calls: 3 })]);
  expect(total).toMatchObject({ cost: 0.5, unknownCalls: 3, unknownTokens: 105, calls: 4 });
});
test("groups and days add up to the whole, in every grouping", () => {
  fc.assert(
    fc.property(
      fc.array(anyRow),
      fc.constantFrom("agent", "model", "project", "session" as const),
      (rows, by) => {
        const whole = totalOf(rows);
        const groups = groupsOf(rows, by);
        expect(groups.reduce((sum, group) => sum + tokensOf(group), 0)).toBe(tokensOf(whole));
        expect(groups.reduce((sum, group) => sum + group.cost, 0)).toBeCloseTo(whole.cost, 9);
        const names = groups.slice(0, 1).map((group) => group.name);
        const told = seriesOf(rows, by, names, daysOf(rows), "tokens").flat();
        expect(told.reduce((sum, value) => sum + value, 0)).toBe(tokensOf(whole));
      },
    ),
  );
});
test("quiet days between the first and the last have their place", () => {
  expect(daysOf([row({ day: "2026-10-30" }), row({ day: "2026-11-02" })])).toEqual([
    "2026-10-30",
    "2026-10-31",
    "2026-11-01",
    "2026-11-02",
  ]);
  expect(daysOf([row({ day: "2026-11-02" })], 3)).toEqual(["2026-10-31", "2026-11-01", "2026-11-02"]);
  expect([daysOf([]), daysOf([], 3)]).toEqual([[], []]);
});
test("a filter takes days and names together", () => {
  const rows = [row({}), row({ day: "2026-11-05" }), row({ agent: "cursor" })];
  expect(spentWithin(rows, { to: "2026-11-03", agent: "codex" })).toEqual([rows[0]]);
});
test("the cached share of nothing is not a number", () => {
  expect([cachedShare({ input: 10, cached: 90 }), cachedShare({ input: 0, cached: 0 })]).toEqual([0.9, null]);
});

test("the command names the brushed days, the last one whole", () => {
  expect(statsCommand("agent")).toBe("turntree stats --by agent");
  expect(statsCommand("project", "2026-10-30", "2026-10-31")).toBe(
    "turntree stats --by session --since 2026-10-30 --until 2026-11-01",
  );
});
