import { expect, test } from "vitest";
import { sendCommand } from "./command.ts";

const here = "default";

test("a message to a session names it, and one to a turn its first digits", () => {
  expect(sendCommand(here, { label: "main", turn: "" }, "what's up", "")).toBe(
    `turntree send main 'what'"'"'s up'`,
  );
  expect(sendCommand(here, { label: null, turn: "sha256:0123456789abcdef" }, "go on", "claude")).toBe(
    "turntree send --model claude 01234567 'go on'",
  );
});

test("a message that looks like an option is none", () => {
  expect(sendCommand(here, { label: "main", turn: "" }, "--help", "")).toBe("turntree send main -- --help");
});

test("a long message is read from a file", () => {
  expect(sendCommand(here, { label: "main", turn: "" }, "x".repeat(5_000), "")).toBe(
    "turntree send main - < message.txt",
  );
});
