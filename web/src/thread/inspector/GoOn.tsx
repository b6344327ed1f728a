import { Play } from "lucide-react";
import type { Tool } from "../../act/acts.ts";
import { useOffered } from "../../act/offers.ts";
import { useActs } from "../../act/useActs.ts";
import { agentName, toneOf } from "../../core/agents.ts";
import { Button } from "../../parts/Button.tsx";
import type { Turn } from "../wire.ts";

const TOOLS: readonly Tool[] = ["claude-code", "codex", "opencode", "gemini"];

/** The ways to work on from this turn: here or in another agent's tool. */
export function GoOn({ turn, session }: { turn: Turn; session: string | null }) {
  const acts = useActs();
  const offers = useOffered();
  if (!offers("handoff") && !offers("worktree") && !offers("tag")) return null;
  return (
    <section className="go-on" aria-label="Go on from here">
      <h3>Go on from here</h3>
      <div>
        {(offers("handoff") ? TOOLS : []).map((tool) => (
          <Button
            key={tool}
            className={`tone-${toneOf(tool)}`}
            icon={<Play aria-hidden="true" />}
            onClick={() => acts.handoff({ turn, session, tool })}
          >
            {agentName(tool)}
          </Button>
        ))}
        {offers("worktree") ? (
          <Button hotkey="w" onClick={() => acts.worktree({ turn, session })}>
            Worktree
          </Button>
        ) : null}
        {offers("tag") ? (
          <Button hotkey="t" onClick={() => acts.tag({ turn, session })}>
            Tag
          </Button>
        ) : null}
      </div>
    </section>
  );
}
