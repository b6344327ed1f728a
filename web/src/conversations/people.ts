/** Principals as people and agents: their names, and how they are shown. Pure. */

import type { ParticipantDocument } from "../api/types.ts";
import { TONES, toneOf } from "../core/agents.ts";
import { placedMentions } from "../thread/markdown/blocks.ts";

export interface Person {
  kind: "agent" | "human";
  /** The name of a program: `ana` of `human:ana`. */
  id: string;
  /** As people call it. */
  name: string;
}

/** The person or agent of a principal; an agent that acts for a person is the agent. */
export function personOf(principal: string, names: ReadonlyMap<string, string>): Person {
  const own = principal.split(" for ")[0] ?? principal;
  const [kind = "", ...rest] = own.split(":");
  const id = rest.join(":") || own;
  return { kind: kind === "agent" ? "agent" : "human", id, name: names.get(own) ?? id };
}

/** The names of all who take part or did, by their principals. */
export function namesOf(participants: readonly ParticipantDocument[]): ReadonlyMap<string, string> {
  return new Map(participants.map((one) => [one.principal, one.name]));
}

/** Those who take part now. */
export function presentIn(participants: readonly ParticipantDocument[]): ParticipantDocument[] {
  return participants.filter((one) => one.removed_at === null);
}

/** The people and agents that texts call and who take no part, each once. */
export function absentIn(
  texts: readonly (string | null)[],
  present: readonly ParticipantDocument[],
): { principal: string; name: string }[] {
  const here = new Set(present.map((one) => one.principal));
  const absent = new Map<string, string>();
  for (const text of texts) {
    if (!text?.includes("](")) continue;
    for (const { mention } of placedMentions(text)) {
      const principal = `${mention.kind === "agent" ? "agent" : "human"}:${mention.id}`;
      // What an agent's mention means was decided when it was said; a person can still be added.
      if (mention.kind === "user" && !here.has(principal)) absent.set(principal, mention.name);
    }
  }
  return [...absent].map(([principal, name]) => ({ principal, name }));
}

/** Whether a text calls a person by name. */
export function calls(text: string | null, user: string | undefined): boolean {
  if (!text || !user || !text.includes("](user:")) return false;
  return placedMentions(text).some(
    ({ mention }) => mention.kind === "user" && mention.id === user && !mention.silent,
  );
}

/** The hue of a person; an agent has the one that its sessions have on other pages. */
export function toneOfPerson({ kind, id }: Person): number {
  if (kind === "agent") return toneOf(id);
  let hash = 7;
  for (const letter of id) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  return (hash ^ (hash >>> 3)) % TONES;
}

/** One or two letters for a picture that is not there. */
export function initials(name: string): string {
  const words = name.split(/[\s._-]+/).filter((word) => /[\p{L}\p{N}]/u.test(word));
  const letters = words.map((word) => /[\p{L}\p{N}]/u.exec(word)?.[0] ?? "");
  return (letters.length > 1 ? `${letters[0]}${letters.at(-1)}` : (letters[0] ?? "?")).toUpperCase();
}

/** Whether a viewer may remove a participant, by the rules of a conversation; the server decides. */
export function mayRemove(one: ParticipantDocument, owner: string, viewer: string): boolean {
  if (one.principal === owner || one.principal === viewer) return false;
  return owner === viewer || one.added_by === viewer || one.principal.startsWith("agent:");
}

/** A name for a title: `Where the depot moves` is `where-the-depot-moves`. */
export function nameFor(title: string): string {
  const plain = title.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  return plain
    .replace(/[^a-z0-9]+/g, "-")
    .replace(/^-+|-+$/g, "")
    .slice(0, 60);
}
