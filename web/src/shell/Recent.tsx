import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { lateSessions } from "../api/sessions.ts";
import { useLabelsAtWork } from "../api/stream.ts";
import { agentName, toneOf } from "../core/agents.ts";
import { Dot } from "../parts/Chip.tsx";
import { Time } from "../parts/Figures.tsx";

const SHOWN = 24;

/** The sessions that were picked up lately; subagents come with the session that spawned them. */
export function Recent() {
  const answer = useQuery(lateSessions);
  const atWork = new Set(useLabelsAtWork().split("\n"));
  const sessions =
    answer.data?.sessions.filter((session) => session.spawned_by === null).slice(0, SHOWN) ?? [];
  return (
    <nav className="recent" aria-label="Picked up lately">
      {sessions.length > 0 ? <h2>Picked up lately</h2> : null}
      {sessions.map((session) => (
        <Link
          key={session.id}
          to="/s/$label"
          params={{ label: session.label }}
          className={`tone-${toneOf(session.agent)}`}
          title={`${session.title || session.label}\n${agentName(session.agent)}, ${session.label}`}
        >
          <Dot />
          <span className="clip">{session.title || session.label}</span>
          {atWork.has(session.label) ? (
            <span className="at-work">at work</span>
          ) : (
            <Time at={session.last_at} />
          )}
        </Link>
      ))}
    </nav>
  );
}
