/** What a turn did, in the order of reading: text, reasoning, groups of tool calls, images. */
import { type Call, type CallKind, callOf, kindOf } from "./viewers/call.ts";
import type { Message, Part } from "./wire.ts";

export interface PartPlace {
  message: number;
  part: number;
}

export type FlowItem =
  | { is: "text"; key: string; text: string; isCut: boolean; at: PartPlace; isInjected: boolean }
  | { is: "reasoning"; key: string; text: string; isCut: boolean; at: PartPlace }
  | { is: "calls"; key: string; groups: CallGroup[] }
  | { is: "image"; key: string; mediaType: string; url: string | null; text: string }
  | { is: "erased"; key: string; role: string }
  | { is: "other"; key: string; text: string };

/** Calls of one kind that follow one another: reads and searches become one line. */
export interface CallGroup {
  kind: CallKind;
  calls: Call[];
}

export function flowOf(messages: readonly Message[]): FlowItem[] {
  const results = new Map<string, { part: Part; at: PartPlace }>();
  const called = new Set<string>();
  for (const message of messages)
    message.parts.forEach((part) => {
      if (part.kind === "tool_use" && part.call_id) called.add(part.call_id);
      if (part.kind === "tool_result" && part.call_id && !results.has(part.call_id))
        results.set(part.call_id, { part, at: { message: message.number, part: part.number } });
    });
  const items: FlowItem[] = [];
  for (const message of messages) {
    if (message.erased) items.push({ is: "erased", key: `${message.number}`, role: message.role });
    message.parts.forEach((part) => {
      const at = { message: message.number, part: part.number };
      const key = `${message.number}.${part.number}`;
      switch (part.kind) {
        case "text":
          if (part.text?.trim())
            items.push({
              is: "text",
              key,
              text: part.text,
              isCut: part.is_cut,
              at,
              isInjected: part.is_injected,
            });
          break;
        case "reasoning":
          if (part.text?.trim())
            items.push({ is: "reasoning", key, text: part.text, isCut: part.is_cut, at });
          break;
        case "tool_use": {
          const result = part.call_id ? results.get(part.call_id) : undefined;
          add(items, key, callOf(part, result?.part ?? null, at, result?.at ?? null));
          break;
        }
        case "tool_result":
          // An answer whose call is in another turn, or was never recorded, is shown by itself.
          if (!part.call_id || !called.has(part.call_id))
            add(items, key, callOf({ ...part, kind: "tool_use" }, part, at, at));
          break;
        case "image":
          items.push({
            is: "image",
            key,
            mediaType: part.media_type ?? "",
            url: part.url,
            text: part.text ?? "",
          });
          break;
        default:
          if (part.text?.trim()) items.push({ is: "other", key, text: part.text });
      }
    });
  }
  return items;
}

function add(items: FlowItem[], key: string, call: Call): void {
  const kind = kindOf(call);
  let last = items.at(-1);
  if (last?.is !== "calls") {
    last = { is: "calls", key, groups: [] };
    items.push(last);
  }
  const group = last.groups.at(-1);
  const isQuiet = (kind === "read" || kind === "search") && call.state === "ok";
  if (isQuiet && group?.kind === kind && group.calls[0]?.state === "ok") group.calls.push(call);
  else last.groups.push({ kind, calls: [call] });
}

/** The words of a question without what tools put into it. */
export function questionOf(query: readonly Message[]): {
  text: string;
  isCut: boolean;
  at: PartPlace | null;
  /** Whether all of it is one part, so that the whole of that part is the whole question. */
  isOnePart: boolean;
  injected: string[];
} {
  const texts: string[] = [];
  const injected: string[] = [];
  let isCut = false;
  let at: PartPlace | null = null;
  for (const message of query) {
    if (message.role === "system") continue;
    message.parts.forEach((part) => {
      if (part.kind !== "text" || !part.text?.trim()) return;
      if (part.is_injected) {
        injected.push(part.text);
        return;
      }
      texts.push(part.text.trim());
      if (part.is_cut) {
        isCut = true;
        at ??= { message: message.number, part: part.number };
      }
    });
  }
  return { text: texts.join("\n\n"), isCut, at, isOnePart: texts.length === 1, injected };
}
