/** Sessions with the subagents that they spawned, however deep. */

export interface Member {
  label: string;
  spawned_by: string | null;
}

export interface Family<T> {
  session: T;
  /** Subagents of it and of its subagents, in the order of the list. */
  subagents: T[];
}

/** Folds each subagent under the first session of its line that is in the list; order is kept. */
export function families<T extends Member>(sessions: readonly T[]): Family<T>[] {
  const byLabel = new Map(sessions.map((session) => [session.label, session]));
  const rootOf = (session: T): T => {
    let at = session;
    const seen = new Set<T>([at]);
    for (;;) {
      const parent = at.spawned_by === null ? undefined : byLabel.get(at.spawned_by);
      if (!parent) return at;
      // Labels that name each other in a circle: each stands alone.
      if (seen.has(parent)) return session;
      seen.add(parent);
      at = parent;
    }
  };
  const found = new Map<T, Family<T>>();
  for (const session of sessions) {
    const root = rootOf(session);
    let family = found.get(root);
    if (!family) {
      family = { session: root, subagents: [] };
      found.set(root, family);
    }
    if (session !== root) family.subagents.push(session);
  }
  return [...found.values()];
}
