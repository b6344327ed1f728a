/** The two sides of an address such as `/compare/fix-login...fix-login-opus`. */
export interface Pair {
  left: string;
  right: string;
}

const BETWEEN = "...";

export function pairOf(word: string | undefined): Pair {
  const text = word ?? "";
  const at = text.indexOf(BETWEEN);
  if (at < 0) return { left: text.trim(), right: "" };
  return { left: text.slice(0, at).trim(), right: text.slice(at + BETWEEN.length).trim() };
}

export function wordOf(pair: Pair): string {
  return `${pair.left}${BETWEEN}${pair.right}`;
}

/** Two figures as shares of the larger one, for bars. */
export function shares(left: number, right: number): { left: number; right: number } {
  const most = Math.max(left, right);
  return most > 0 ? { left: left / most, right: right / most } : { left: 0, right: 0 };
}

/** Tools of both sides, the most used first, with the calls of each. */
export function toolsOfBoth(
  left: readonly { tool: string; calls: number }[],
  right: readonly { tool: string; calls: number }[],
): { tool: string; left: number; right: number }[] {
  const tools = new Map<string, { tool: string; left: number; right: number }>();
  for (const [side, list] of [["left", left] as const, ["right", right] as const])
    for (const { tool, calls } of list) {
      const both = tools.get(tool) ?? { tool, left: 0, right: 0 };
      both[side] += calls;
      tools.set(tool, both);
    }
  return [...tools.values()].sort(
    (a, b) => b.left + b.right - a.left - a.right || a.tool.localeCompare(b.tool),
  );
}
