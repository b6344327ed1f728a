import { expect, test } from "vitest";
import type { ParticipantDocument } from "../api/types.ts";
import { absentIn, calls, initials, mayRemove, nameFor, personOf } from "./people.ts";

function participant(principal: string, added: string): ParticipantDocument {
  return {
    principal,
    name: principal,
    added_by: added,
    added_at: "2026-11-19T14:00:00.000Z",
    removed_by: null,
    removed_at: null,
    session: null,
    label: null,
    is_thinking: false,
  };
}

test("a principal is a person or an agent, by the name that it has now", () => {
  const names = new Map([["agent:atlas", "Atlas"]]);
  expect(personOf("agent:atlas", names)).toEqual({ kind: "agent", id: "atlas", name: "Atlas" });
  expect(personOf("agent:atlas for human:ana", names).name).toBe("Atlas");
  expect(personOf("human:a:b", names)).toEqual({ kind: "human", id: "a:b", name: "a:b" });
});

test.each([
  ["Ana Ruiz", "AR"],
  ["ana", "A"],
  ["où-là", "OL"],
  ["—", "?"],
])("the letters of %j are %j", (name, letters) => {
  expect(initials(name)).toBe(letters);
});

test("only a mention that is not silent calls the reader", () => {
  expect(calls("@[Ana](user:ana) look", "ana")).toBe(true);
  expect(calls("@_[Ana](user:ana) wrote it", "ana")).toBe(false);
  expect(calls("`@[Ana](user:ana)`", "ana")).toBe(false);
  expect(calls("@[Ana](agent:ana)", "ana")).toBe(false);
  expect(calls(null, "ana")).toBe(false);
});

test("people who are called and not here are found once", () => {
  const texts = ["@[Bob](user:bob) and @[Al](user:al)", "@[Bob](user:bob)", "@[X](agent:x)", null];
  expect(absentIn(texts, [participant("human:al", "human:al")])).toEqual([
    { principal: "human:bob", name: "Bob" },
  ]);
});

test("the creator removes all others, and the others whom they added, and agents", () => {
  const [own, agent] = [participant("human:bob", "human:al"), participant("agent:x", "human:ana")];
  expect(mayRemove(own, "human:ana", "human:ana")).toBe(true);
  expect(mayRemove(own, "human:ana", "human:al")).toBe(true);
  expect(mayRemove(own, "human:ana", "human:eve")).toBe(false);
  expect(mayRemove(agent, "human:ana", "human:eve")).toBe(true);
  expect(mayRemove(participant("human:ana", "human:ana"), "human:ana", "human:ana")).toBe(false);
});

test("a title becomes a name that an address can have", () => {
  expect(nameFor("Where the dépôt moves?")).toBe("where-the-depot-moves");
  expect(nameFor("…")).toBe("");
});
