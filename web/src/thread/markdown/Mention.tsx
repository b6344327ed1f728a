import { Bot, UserRound } from "lucide-react";
import { visible } from "../text.ts";
import { placedMentions } from "./blocks.ts";
import type { Mention } from "./mentions.ts";

/** Whom a text mentions, as a badge; what tells people from agents is said to a screen reader as well. */
export function MentionBadge({ mention }: { mention: Mention }) {
  const { kind, silent } = mention;
  const Sign = kind === "agent" ? Bot : UserRound;
  return (
    <span className={`mention ${kind}${silent ? " silent" : ""}`} title={`${kind}:${mention.id}`}>
      <Sign aria-hidden="true" />
      <bdi>{visible(mention.name)}</bdi>
      <span className="visually-hidden">
        {kind === "agent" ? " (agent" : " (person"}
        {silent ? ", named silently)" : ")"}
      </span>
    </span>
  );
}

/** Text as it is, with badges for its mentions. */
export function MentionText({ text }: { text: string }) {
  const placed = placedMentions(text);
  if (placed.length === 0) return <>{visible(text)}</>;
  return (
    <>
      {placed.map(({ mention, start, end }, index) => (
        <span key={start}>
          {visible(text.slice(placed[index - 1]?.end ?? 0, start))}
          <MentionBadge mention={mention} />
          {index === placed.length - 1 ? visible(text.slice(end)) : null}
        </span>
      ))}
    </>
  );
}
