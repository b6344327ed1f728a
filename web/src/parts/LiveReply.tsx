import { useLiveRun } from "../api/stream.ts";
import "./live.css";

/** What a session is saying right now; gone once the turn is sealed and stands in the thread. */
export function LiveReply(props: { session: string | null | undefined }) {
  const run = useLiveRun(props.session);
  if (!run) return null;
  const tools = run.steps.flatMap((step) => step.tools);
  const isThinking = run.steps.every((step) => !step.text);
  return (
    <section className="live-reply" aria-label="Reply in progress" data-run={run.run}>
      <p className="live-state">
        <i aria-hidden="true" />
        {isThinking ? "Thinking" : "Writing"}
        {tools.length ? <span className="faint"> · {tools.join(", ")}</span> : null}
      </p>
      {run.steps.map((step) =>
        step.text ? (
          <div key={step.seq} className="live-text">
            {step.text}
          </div>
        ) : null,
      )}
    </section>
  );
}
