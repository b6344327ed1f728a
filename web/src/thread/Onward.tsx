import { Link } from "@tanstack/react-router";
import { ArrowRight } from "lucide-react";
import { toneOf } from "../core/agents.ts";
import { count, titled } from "../core/format.ts";
import { Dot } from "../parts/Chip.tsx";
import { tail } from "./TurnArticle.tsx";
import { visible } from "./text.ts";
import type { Spine } from "./wire.ts";

interface Props {
  spine: Spine | undefined;
  /** The depth of the last turn that is shown. */
  total: number;
  /** Whether the address names a turn, and not a session. */
  isTurn: boolean;
}

/** What comes after the last turn shown: a link to a turn, or a session that went back, hides it. */
export function Onward({ spine, total, isTurn }: Props) {
  const later = spine?.branches.filter((branch) => branch.from_depth === total) ?? [];
  if (later.length === 0) return null;
  return (
    <nav className="onward" aria-labelledby="onward">
      <h2 id="onward">
        {isTurn ? "This link ends here. The thread goes on:" : "The session ends here. Later turns are kept:"}
      </h2>
      <ul>
        {later.map((branch) => (
          <li key={branch.turn}>
            <Link
              className={`onward-way tone-${toneOf(branch.agent)}`}
              {...(branch.label
                ? { to: "/s/$label", params: { label: branch.label }, search: { turn: branch.turn } }
                : { to: "/t/$turn", params: { turn: branch.turn } })}
            >
              <Dot />
              <b className="clip">{visible(branch.label ? tail(branch.label) : "unnamed")}</b>
              <span className="clip">{visible(titled(branch.title))}</span>
              <small>{count(branch.turns, "later turn")}</small>
              <ArrowRight aria-hidden="true" />
            </Link>
          </li>
        ))}
      </ul>
    </nav>
  );
}
