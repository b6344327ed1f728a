import { expect, test } from "vitest";
import type { Me } from "../api/types.ts";
import { isOffered } from "./offers.ts";

const me = (...may: string[]): Me => ({
  user: "gus",
  workspace: "team",
  version: "1",
  home: "",
  can_run: false,
  sample: false,
  may,
  login: null,
});

test("a guest is not offered what would be refused", () => {
  const guest = me("read", "invoke", "key.create");
  expect(isOffered("share", guest, true)).toBe(true);
  for (const kind of ["fork", "rename", "archive", "rewind", "undo", "tag"] as const)
    expect(isOffered(kind, guest, true)).toBe(false);
});

test("what works with a machine's own files is not offered over the network", () => {
  const member = me("read", "invoke", "create", "configure", "key.create");
  for (const kind of ["worktree", "revert", "handoff"] as const) {
    expect(isOffered(kind, member, true)).toBe(false);
    expect(isOffered(kind, member, false)).toBe(true);
  }
});

test("nothing is offered over the network before the server has said who asks", () => {
  expect(isOffered("fork", undefined, true)).toBe(false);
  expect(isOffered("fork", undefined, false)).toBe(true);
});
