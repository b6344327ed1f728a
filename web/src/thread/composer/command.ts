import { digits, spell } from "../../act/command.ts";

/** A longer message is read from a file: the line is to be seen at a glance. */
const LINE_CHARS_MAX = 400;

/** The command line that sends the same message. */
export function sendCommand(
  workspace: string,
  to: { label: string | null; turn: string },
  text: string,
  model: string,
): string {
  const target = to.label ?? digits(to.turn);
  const isLong = text.length > LINE_CHARS_MAX || text.trim() === "-";
  const words = [
    "send",
    ...(model ? ["--model", model] : []),
    target,
    ...(isLong ? ["-"] : text.startsWith("-") ? ["--", text] : [text]),
  ];
  const line = spell(workspace, ...words);
  return isLong ? `${line} < message.txt` : line;
}
