import { describe, expect, test } from "vitest";
import { agentName, toneOf } from "./agents.ts";
import { age, bytes, count, dollars, duration, short } from "./format.ts";

const NOW = Date.UTC(2026, 10, 16, 12);

describe("figures", () => {
  test("a count takes the singular for one only", () => {
    expect([count(0, "turn"), count(1, "turn"), count(1402, "turn")]).toEqual([
      "0 turns",
      "1 turn",
      "1,402 turns",
    ]);
  });
  test("short keeps three digits that mean something", () => {
    expect([short(999), short(7300), short(3_214_000_000)]).toEqual(["999", "7.3K", "3.21B"]);
  });
  test("an unknown price is never a zero", () => {
    expect([dollars(null), dollars(0), dollars(0.004), dollars(1.5), dollars(1869.2)]).toEqual([
      "unknown",
      "$0",
      "< $0.01",
      "$1.50",
      "$1,869",
    ]);
  });
  test("bytes", () => {
    expect([bytes(1), bytes(1023), bytes(1536), bytes(10 * 1024 * 1024)]).toEqual([
      "1 byte",
      "1,023 bytes",
      "1.5 KB",
      "10 MB",
    ]);
  });
});

describe("times", () => {
  test("an age grows from now to a date", () => {
    const ago = (ms: number) => age(NOW - ms, NOW);
    expect([
      ago(5000),
      ago(16 * 60_000),
      ago(7 * 3_600_000),
      ago(3 * 86_400_000),
      ago(60 * 86_400_000),
    ]).toEqual(["now", "16 min", "7 h", "3 d", "Sep 17"]);
  });
  test("a duration names at most two units", () => {
    expect([duration(34_000), duration(12 * 60_000), duration(200 * 60_000)]).toEqual([
      "34 s",
      "12 min",
      "3 h 20 min",
    ]);
  });
});

describe("agents", () => {
  test("the same agent has the same tone in any case of letters", () => {
    expect(toneOf("Codex")).toBe(toneOf("codex"));
    expect(toneOf("my-own-agent")).toBe(toneOf("my-own-agent"));
  });
  test("unknown agents take hues of their own while there are some", () => {
    const tones = ["turntree", "atlas", "my-own-agent"].map(toneOf);
    expect(new Set(tones).size).toBe(3);
    expect(tones.every((tone) => tone >= 5)).toBe(true);
  });
  test("an agent without a known name is called what it calls itself", () => {
    expect([agentName("gemini"), agentName("atlas")]).toEqual(["Gemini CLI", "atlas"]);
  });
});
