/** Which colour and which name an agent has, everywhere. */

const KNOWN: Record<string, { name: string; tone: number }> = {
  "claude-code": { name: "Claude Code", tone: 0 },
  claude: { name: "Claude", tone: 0 },
  "claude-ai": { name: "Claude", tone: 5 },
  codex: { name: "Codex", tone: 1 },
  cursor: { name: "Cursor", tone: 2 },
  gemini: { name: "Gemini CLI", tone: 3 },
  opencode: { name: "opencode", tone: 4 },
  chatgpt: { name: "ChatGPT", tone: 6 },
  messages: { name: "Messages", tone: 7 },
  turntree: { name: "Turntree", tone: 6 },
};

export const TONES = 8;

/** Hues that none of the five common tools has. */
const FREE = [7, 5, 6] as const;
const given = new Map<string, number>();

/** 0 to 7, the same for the same agent on every page; a new agent takes a hue that is free, while there is one. */
export function toneOf(agent: string | null | undefined): number {
  if (!agent) return 6;
  const name = agent.toLowerCase();
  const known = KNOWN[name];
  if (known) return known.tone;
  const before = given.get(name);
  if (before !== undefined) return before;
  let hash = 0;
  for (const letter of name) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  const taken = new Set([...given.values(), KNOWN.turntree?.tone]);
  const wished = FREE[hash % FREE.length] ?? 7;
  const tone = taken.has(wished) ? (FREE.find((hue) => !taken.has(hue)) ?? wished) : wished;
  given.set(name, tone);
  return tone;
}

/** The name people use for an agent. */
export function agentName(agent: string | null | undefined): string {
  if (!agent) return "unknown agent";
  return KNOWN[agent.toLowerCase()]?.name ?? agent;
}
