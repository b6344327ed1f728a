import { expect, test } from "vitest";
import { addressOf } from "./client.ts";

test("a label keeps its slashes inside one segment of the path", () => {
  expect(addressOf("/threads/{revision}", { revision: "demo/shop", limit: 20 })).toBe(
    "/threads/demo%2Fshop?limit=20",
  );
});

test("two names share a segment", () => {
  expect(addressOf("/compare/{a}...{b}/diff", { a: "x/y", b: "z", path: "a b" })).toBe(
    "/compare/x%2Fy...z/diff?path=a+b",
  );
});

test("what is not known is not sent, and lists have commas", () => {
  expect(addressOf("/rows", { at: ["1.2-3", "4.1-1"], turns: null, low: undefined })).toBe(
    "/rows?at=1.2-3%2C4.1-1",
  );
  expect(addressOf("/me")).toBe("/me");
});
