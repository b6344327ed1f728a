import fc from "fast-check";
import { expect, test } from "vitest";
import { families } from "./families.ts";

const session = (label: string, spawned_by: string | null = null) => ({ label, spawned_by });

test("subagents of subagents are folded under the session that began it", () => {
  const told = families([session("a"), session("b", "a"), session("c", "b"), session("d")]);
  expect(told.map((family) => [family.session.label, family.subagents.map((each) => each.label)])).toEqual([
    ["a", ["b", "c"]],
    ["d", []],
  ]);
});
test("a subagent whose session is not in the list stands alone", () => {
  expect(families([session("b", "elsewhere")]).map((family) => family.session.label)).toEqual(["b"]);
});
test("each session is in exactly one family", () => {
  const name = fc.constantFrom("a", "b", "c", "d", "e");
  fc.assert(
    fc.property(fc.uniqueArray(fc.tuple(name, fc.option(name)), { selector: ([label]) => label }), (rows) => {
      const told = families(rows.map(([label, parent]) => session(label, parent)));
      const members = told.flatMap((family) => [family.session, ...family.subagents]);
      expect(members.map((each) => each.label).sort()).toEqual(rows.map(([label]) => label).sort());
    }),
  );
});
