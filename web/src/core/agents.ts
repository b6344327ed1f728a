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
};

export const TONES = 8;

/** 0 to 7, the same for the same agent on every page. */
export function toneOf(agent: string | null | undefined): number {
  if (!agent) return 6;
  const known = KNOWN[agent.toLowerCase()];
  if (known) return known.tone;
  let hash = 0;
  for (const letter of agent) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) >>> 0;
  return hash % TONES;
}

/** The name people use for an agent. */
export function agentName(agent: string | null | undefined): string {
  if (!agent) return "unknown agent";
  return KNOWN[agent.toLowerCase()]?.name ?? agent;
}
