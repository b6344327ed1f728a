import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import { quoted, spell } from "./command.ts";

const HOSTILE = [
  "\u001b[201~ls",
  "a\u001b]52;c;eA==\u0007b",
  "\u009b2J",
  "it's\r\nrm -rf",
  "a\u202eb\u2066c\u200bd",
  "two words",
  "$(id)",
  "-x",
  "",
  "\\x41",
  "日本",
  "~",
  "!!",
];

describe("quoted", () => {
  it.each(HOSTILE)("is printable and bash splits it back: %j", (word) => {
    const line = spell("default", "tag", "HEAD", word, "last");
    expect(/[\p{C}\p{Zl}\p{Zp}]/u.test(line)).toBe(false);
    const printed = execFileSync("bash", ["--norc", "-c", `turntree() { printf '%s\\0' "$@"; }; ${line}`], {
      env: { LC_ALL: "C.UTF-8", PATH: "/usr/bin:/bin" },
    });
    expect(printed.toString("utf8").split("\0").slice(0, -1)).toEqual(["tag", "HEAD", word, "last"]);
  });

  it("leaves a plain word as it is", () => {
    expect(quoted("claude-code/shop:main")).toBe("claude-code/shop:main");
  });

  it("names the workspace unless it is the default one", () => {
    expect(spell("demo", "undo", "main")).toBe("TURNTREE_WORKSPACE=demo turntree undo main");
  });
});
