import { expect, test } from "vitest";
import { loginAddress, placeIn } from "./place.ts";

test("a path names its workspace, still escaped", () => {
  expect(placeIn("/w/team/s/main")).toBe("/w/team");
  expect(placeIn("/w/team")).toBe("/w/team");
  expect(placeIn("/w/a%2Fb/")).toBe("/w/a%2Fb");
});

test("a page on one's own machine names none", () => {
  for (const path of ["/", "/s/w", "/web/x", "/w/", "/w"]) expect(placeIn(path)).toBe("");
});

test("logging in leads back to the same place", () => {
  expect(loginAddress("/w/team", "/w/team/s/a%2Fb?turn=1")).toBe(
    "/w/team/login#to=%2Fs%2Fa%252Fb%3Fturn%3D1",
  );
  expect(loginAddress("/w/team", "/w/team/s/a", "ana b")).toBe("/w/team/login#to=%2Fs%2Fa&of=ana%20b");
  expect(loginAddress("/w/team", "/w/team/")).toBe("/w/team/login");
  expect(loginAddress("/w/team", "/w/team")).toBe("/w/team/login");
});
