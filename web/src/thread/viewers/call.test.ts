import { describe, expect, test } from "vitest";
import type { Part } from "../wire.ts";
import { argument, type Call, COMMANDS, callOf, editsOf, kindOf } from "./call.ts";

const part = (values: Partial<Part>): Part => ({
  kind: "tool_use",
  number: 0,
  text: null,
  is_cut: false,
  is_injected: false,
  call_id: "1",
  tool: null,
  args: null,
  status: null,
  output: null,
  about: null,
  spawned: null,
  media_type: null,
  url: null,
  ...values,
});
const call = (tool: string, args: unknown): Call =>
  callOf(part({ tool, args }), part({ kind: "tool_result", status: "ok" }), { message: 1, part: 0 }, null);

describe("what a call does", () => {
  test.each([
    ["Read", { file_path: "a.ts" }, "read"],
    ["Edit", { file_path: "a.ts", old_string: "a", new_string: "b" }, "edit"],
    ["MultiEdit", { file_path: "a.ts", edits: [{ old_string: "a", new_string: "b" }] }, "edit"],
    ["Write", { file_path: "a.ts", content: "x" }, "edit"],
    ["Bash", { command: "npm test" }, "command"],
    ["Grep", { pattern: "x" }, "search"],
    ["Glob", { pattern: "**/*.ts" }, "search"],
    ["WebFetch", { url: "https://a.b" }, "web"],
    ["TodoWrite", { todos: [] }, "plan"],
    ["Task", { prompt: "find" }, "subagent"],
    ["AskUserQuestion", { questions: [] }, "question"],
    ["shell", { command: ["bash", "-lc", "npm test"] }, "command"],
    ["shell", { command: ["bash", "-lc", "cat src/a.ts"] }, "read"],
    ["shell", { command: ["bash", "-lc", "rg -n foo src"] }, "search"],
    ["shell", { command: ["bash", "-lc", "apply_patch <<'E'\n*** Begin Patch\n*** End Patch\nE"] }, "edit"],
    ["exec_command", { cmd: "cat a > b" }, "command"],
    ["apply_patch", "*** Begin Patch\n*** End Patch", "edit"],
    ["update_plan", { plan: [] }, "plan"],
    ["web_search", { query: "x" }, "web"],
    ["read", { filePath: "a.ts" }, "read"],
    ["edit", { filePath: "a.ts", oldString: "a", newString: "b" }, "edit"],
    ["bash", { command: "ls && make" }, "command"],
    ["todowrite", { todos: [] }, "plan"],
    ["task", { prompt: "x" }, "subagent"],
    ["read_file", { absolute_path: "/a" }, "read"],
    ["replace", { file_path: "/a", old_string: "a", new_string: "b" }, "edit"],
    ["run_shell_command", { command: "make" }, "command"],
    ["search_file_content", { pattern: "x" }, "search"],
    ["google_web_search", { query: "x" }, "web"],
    ["write_todos", { todos: [] }, "plan"],
    ["mcp__linear__get_issue", { id: "A-1" }, "other"],
  ])("%s %j is a %s", (tool, args, kind) => {
    expect(kindOf(call(tool, args))).toBe(kind);
  });

  test("the command of a shell is the text that it was given", () => {
    expect(argument(call("shell", { command: ["bash", "-lc", "a | b"] }), COMMANDS)).toBe("a | b");
    expect(argument(call("shell", { command: ["git", "commit", "-m", "it's done"] }), COMMANDS)).toBe(
      "git commit -m 'it'\\''s done'",
    );
  });

  test("edits are read from every agent's arguments", () => {
    expect(editsOf(call("Edit", { file_path: "a", old_string: "x", new_string: "y" }))).toEqual([
      { path: "a", old: "x", new: "y" },
    ]);
    expect(editsOf(call("edit", { filePath: "a", oldString: "x", newString: "y" }))).toEqual([
      { path: "a", old: "x", new: "y" },
    ]);
    expect(editsOf(call("Write", { file_path: "a", content: "y" }))).toEqual([
      { path: "a", old: "", new: "y" },
    ]);
    expect(
      editsOf(call("MultiEdit", { file_path: "a", edits: [{ old_string: "x", new_string: "y" }, null] })),
    ).toEqual([{ path: "a", old: "x", new: "y" }]);
  });

  test("an unanswered call and a stopped one are told apart from a failure", () => {
    const use = part({ tool: "Bash" });
    expect(callOf(use, null, { message: 0, part: 0 }, null).state).toBe("unanswered");
    expect(callOf(use, part({ status: "canceled" }), { message: 0, part: 0 }, null).state).toBe("stopped");
    expect(callOf(use, part({ status: "timeout" }), { message: 0, part: 0 }, null).state).toBe("failed");
  });
});
