import { expect, test } from "vitest";
import type { ImportJob } from "../core/live.ts";
import { importable, isRunning, jobsByTool, progressOf, type Source } from "./choice.ts";

const job = (tool: string, more: Partial<ImportJob> = {}): ImportJob => ({
  job: "1",
  tool,
  done: 0,
  total: 0,
  turns: 0,
  sessions: 0,
  state: "waiting",
  error: null,
  ...more,
});

const source = (tool: string, state: Source["state"]): Source => ({
  tool,
  name: tool,
  folder: null,
  sessions: 1,
  turns_estimate: 1,
  bytes: 1,
  imported: 0,
  state,
});

test("what was imported or is absent is not offered", () => {
  const sources = [
    source("a", "absent"),
    source("b", "found"),
    source("c", "partly"),
    source("d", "imported"),
  ];
  expect(importable(sources)).toEqual(["b", "c"]);
});

test("the newest job of a tool counts", () => {
  const newest = jobsByTool([job("a", { state: "failed" }), job("a", { job: "2", state: "running" })]);
  expect(isRunning(newest.get("a"))).toBe(true);
  expect(isRunning(newest.get("b"))).toBe(false);
});

test("progress is over all bytes, and waits for jobs that have not looked yet", () => {
  expect(progressOf([])).toBe(0);
  expect(progressOf([job("a", { done: 50, total: 100 }), job("b", { done: 0, total: 100 })])).toBe(0.25);
  expect(progressOf([job("a", { done: 100, total: 100 })])).toBe(1);
  expect(progressOf([job("a")])).toBe(0);
});
