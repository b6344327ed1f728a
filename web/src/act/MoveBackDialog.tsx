import { useQuery } from "@tanstack/react-query";
import { ArrowLeft } from "lucide-react";
import { useEffect, useState } from "react";
import { read } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import { count } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import type { Target } from "./acts.ts";
import { digits, spell } from "./command.ts";
import { Frame, inQuotes } from "./Frame.tsx";
import { useReadyFocus } from "./Plan.tsx";
import { useAct, useNoField, useWorkspace } from "./useAct.ts";

/** A move back on a server for a team: the session moves, and the files of its members stay where they are. */
export function MoveBackDialog({ target, before }: { target: Target; before: boolean }) {
  useNoField();
  const { turn } = target;
  const act = useAct("rewind");
  const workspace = useWorkspace();
  const [chosen, setChosen] = useState(target.session ?? null);
  const known = useQuery({
    queryKey: ["turn", turn.id],
    queryFn: ({ signal }) => read("/turns/{revision}", { revision: turn.id }, signal),
  });
  const sessions = target.session ? [target.session] : (known.data?.sessions ?? []);
  useEffect(() => {
    if (!chosen && sessions[0]) setChosen(sessions[0]);
  }, [chosen, sessions]);
  const found = useQuery({
    queryKey: ["session", chosen],
    queryFn: ({ signal }) => read("/sessions/{session}", { session: chosen ?? "" }, signal),
    enabled: chosen !== null,
    staleTime: 0,
  });
  const session = found.data;
  const depth = known.data ? known.data.depth - (before ? 1 : 0) : null;
  const left = session && depth !== null ? Math.max(0, session.turns - depth) : null;
  const body = useReadyFocus(left !== null && left > 0);
  const failed = act.problem ?? (found.error || known.error ? asProblem(found.error ?? known.error) : null);
  return (
    <Frame
      title={`Go back to ${inQuotes(turn.title)}`}
      lead="Nothing is deleted. Every turn after it keeps its address, and one key brings the session back."
      command={
        session
          ? spell(workspace, "rewind", session.label, digits(turn.digest), ...(before ? ["--before"] : []))
          : undefined
      }
      problem={failed}
      remedy={
        failed?.kind === "head-moved" ? (
          <Button
            onClick={() => {
              act.forget();
              void found.refetch();
            }}
          >
            Look at where it is now
          </Button>
        ) : undefined
      }
      submit={() =>
        session &&
        void act.finish(
          "/sessions/{session}/rewind",
          { to: turn.id, before, expected_head: session.head },
          { session: session.label },
        )
      }
      verb="Go back"
      busy={act.busy}
      disabled={!left}
    >
      <div ref={body}>
        {target.session ? null : (
          <div className="act-body">
            <div className="act-field">
              <label htmlFor="back-session">Session that moves</label>
              <select
                id="back-session"
                value={chosen ?? ""}
                onChange={(event) => setChosen(event.target.value)}
              >
                {sessions.map((label) => (
                  <option key={label}>{label}</option>
                ))}
              </select>
              {known.data && sessions.length === 0 ? (
                <p className="act-hint">No session holds this turn. Fork it instead.</p>
              ) : null}
            </div>
          </div>
        )}
        {session && left !== null ? (
          <p className="act-move">
            <ArrowLeft aria-hidden="true" />
            <span>
              <b>{session.label}</b> {left ? "moves to" : "stays at"} <code>{digits(turn.digest)}</code>
            </span>
            <small>
              {left ? `${count(left, "turn")} stay${left === 1 ? "s" : ""}, unnamed` : "it is there already"}
            </small>
          </p>
        ) : null}
        <p className="act-note">
          For everyone in this workspace. Files on your machines stay as they are: to take those back too, use
          the command line where they are.
        </p>
      </div>
    </Frame>
  );
}
