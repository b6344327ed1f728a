import { expect, test } from "vitest";
import { asProblem, OFFLINE, stepsFor } from "./problem.ts";

test("a part of the page that cannot be loaded means that the server is away", () => {
  for (const error of [
    new TypeError("Failed to fetch"),
    new TypeError("Failed to fetch dynamically imported module: http://127.0.0.1/assets/a.js"),
    new Error("Unable to preload CSS for http://127.0.0.1/assets/a.css"),
  ])
    expect(asProblem(error).status).toBe(OFFLINE);
  expect(asProblem(new Error("cannot read x")).status).toBe(500);
});

test("a person on a server for a team is shown no requests", () => {
  const steps = ["name a model in the message: GET /w/team/api/v1/runs/preview lists them", "ask an admin"];
  expect(stepsFor(steps, true)).toEqual(["ask an admin"]);
  expect(stepsFor(["turntree model create"], false)).toEqual(["turntree model create"]);
  expect(stepsFor(undefined)).toEqual([]);
});
