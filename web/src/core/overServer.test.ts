import { expect, test } from "vitest";
import { overServer } from "./overServer.ts";

const SERVER = "https://turntree.example.net/w/team";

test("a command that works over a server is told its address", () => {
  expect(overServer("TURNTREE_WORKSPACE=team turntree fork e9177 other", SERVER)).toBe(
    `turntree --server ${SERVER} fork e9177 other`,
  );
  expect(overServer("TURNTREE_WORKSPACE='my team' turntree undo main", SERVER)).toBe(
    `turntree --server ${SERVER} undo main`,
  );
  expect(overServer("turntree session list", SERVER)).toBe(`turntree --server ${SERVER} session list`);
});

test("a command of the ledger's own machine stays", () => {
  for (const line of ["turntree tag e9177 x", "turntree session config main", "turntree member list"])
    expect(overServer(line, SERVER)).toBe(line);
});

test("without a server nothing changes", () => {
  expect(overServer("turntree undo main", "")).toBe("turntree undo main");
});

test("conversations and the inbox work over a server too", () => {
  expect(overServer("turntree conversation post talk hello", SERVER)).toBe(
    `turntree --server ${SERVER} conversation post talk hello`,
  );
  expect(overServer("turntree inbox", SERVER)).toBe(`turntree --server ${SERVER} inbox`);
});
