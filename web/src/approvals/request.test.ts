import { expect, test } from "vitest";
import {
  answerOf,
  argsOfText,
  askerOf,
  commandOf,
  exact,
  fieldsOf,
  headingOf,
  kindOfRequest,
  lineOf,
  otherArgs,
  type Request,
  verdictOf,
} from "./request.ts";

const CALL: Request = {
  id: "1",
  kind: "call",
  tool: "shell.exec",
  origin: "turntree",
  args: { command: "rm -rf build\nnpm run build" },
  requested_by: "agent:atlas for human:ana",
  label: "cart",
  question: null,
};

test("a command is asked about by its first line", () => {
  expect(kindOfRequest(CALL)).toBe("command");
  expect(lineOf(CALL)).toBe("Run rm -rf build");
  expect(headingOf(CALL)).toBe("May atlas run this command?");
  expect(kindOfRequest({ ...CALL, args: { command: "cat notes" } })).toBe("command");
});

test("a file that is written is a change", () => {
  const write = { ...CALL, tool: "fs.write", args: { path: "a.ts", content: "1\n" } };
  expect(kindOfRequest(write)).toBe("change");
  expect(lineOf(write)).toBe("Write a.ts");
});

test("a command is a command, whatever is in its text", () => {
  const patch = "*** Begin Patch\n*** Add File: a.txt\n+hi\n*** End Patch";
  const args = { command: `rm -rf ~; true '${patch}'` };
  expect(kindOfRequest({ ...CALL, tool: "Bash", args })).toBe("command");
  expect(kindOfRequest({ ...CALL, tool: "fs.write", args: { ...args, path: "a", content: "" } })).toBe(
    "command",
  );
  expect(kindOfRequest({ ...CALL, tool: "apply_patch", args: { command: patch } })).toBe("change");
});

test("no argument is left out", () => {
  const twice = { command: "ls", cmd: "rm -rf ~", timeout: 5 };
  expect([commandOf({ ...CALL, args: twice }), otherArgs({ ...CALL, args: twice })]).toEqual([
    "ls",
    { cmd: "rm -rf ~", timeout: 5 },
  ]);
  const words = { command: ["bash", "-c", "ls", "-x"] };
  expect(otherArgs({ ...CALL, args: words })).toEqual(words);
  const write = { path: "a.ts", content: "1\n", url: "https://x.example" };
  expect(otherArgs({ ...CALL, tool: "fs.write", args: write })).toEqual({ url: "https://x.example" });
  const long = { path: "a.ts", content: `${" ".repeat(5000)}x` };
  expect(otherArgs({ ...CALL, tool: "fs.write", args: long })).toEqual(long);
  const edits = { path: "a.ts", edits: [{ old_string: "a", new_string: "b", replace_all: true }] };
  expect(otherArgs({ ...CALL, tool: "MultiEdit", args: edits })).toEqual(edits);
});

test("what has no width is written out", () => {
  const tag = String.fromCodePoint(0xe0041);
  expect(exact({ "a\u200b": [`ls${tag}\u00a0x`, 1, null] })).toEqual({
    "a⟨200B⟩": ["ls⟨E0041⟩⟨00A0⟩x", 1, null],
  });
  expect(exact("a\tb\nc d é 日本")).toBe("a\tb\nc d é 日本");
});

test("any other tool is a call with its arguments", () => {
  expect(lineOf({ ...CALL, tool: "mail.send", args: { to: "x" } })).toBe("Call mail.send");
});

test("another tool asks by its own name", () => {
  expect(askerOf({ ...CALL, origin: "claude-code", requested_by: "human:ana" })).toBe("Claude Code");
});

test("a form follows the schema, and answers with its types", () => {
  const question = {
    message: "Which database?",
    schema: {
      properties: {
        name: { type: "string", enum: ["staging", "main"] },
        rows: { type: "integer", title: "Rows" },
        dry: { type: "boolean", default: true },
      },
      required: ["name"],
    },
  };
  const fields = fieldsOf({ ...CALL, kind: "question", question });
  expect(fields.map((one) => [one.title, one.type])).toEqual([
    ["name", "choice"],
    ["Rows", "number"],
    ["dry", "yes"],
  ]);
  expect(answerOf(fields, { name: "main", rows: "3" })).toEqual({ name: "main", rows: 3, dry: true });
  expect(answerOf(fields, { rows: "3" })).toBeNull();
  expect(answerOf(fields, { name: "main", rows: "x" })).toBeNull();
});

test("without a schema there are no fields", () => {
  expect(fieldsOf({ ...CALL, kind: "question", question: { message: "Why?" } })).toEqual([]);
});

test("edited arguments are a JSON object", () => {
  expect(argsOfText('{"a": 1}')).toEqual({ a: 1 });
  expect(argsOfText("[1]")).toBeNull();
  expect(argsOfText("{")).toBeNull();
});

test("who comes later is told who decided", () => {
  expect(verdictOf("used", "human:ben")).toBe("ben already approved it");
  expect(verdictOf("expired", null)).toBe("The request has expired");
});
