import { Bot, UserRound } from "lucide-react";
import { createContext, useContext } from "react";
import { visible } from "../text.ts";
import { placedMentions } from "./blocks.ts";
import type { Mention } from "./mentions.ts";

/** What a page knows of those who are mentioned; a thread knows nothing. */
export interface MentionPeople {
  /** What they are called now; a name may have changed since it was written. */
  nameOf: (mention: Mention) => string | null;
  /** Whether it is the reader. */
  isReader: (mention: Mention) => boolean;
  /** Shows who it is. */
  open: (mention: Mention) => void;
}

export const MentionPeopleContext = createContext<MentionPeople | null>(null);

/** Whom a text mentions, as a badge; what tells people from agents is said to a screen reader as well. */
export function MentionBadge({ mention }: { mention: Mention }) {
  const people = useContext(MentionPeopleContext);
  const { kind, silent } = mention;
  const Sign = kind === "agent" ? Bot : UserRound;
  const isReader = people?.isReader(mention) ?? false;
  const className = `mention of-${kind}${silent ? " silent" : ""}${isReader ? " reader" : ""}`;
  const title = `${kind}:${mention.id}`;
  const content = (
    <>
      <Sign aria-hidden="true" />
      <bdi>{visible(people?.nameOf(mention) ?? mention.name)}</bdi>
      <span className="visually-hidden">
        {isReader ? " (you" : kind === "agent" ? " (agent" : " (person"}
        {silent ? ", named silently)" : ")"}
      </span>
    </>
  );
  if (!people)
    return (
      <span className={className} title={title}>
        {content}
      </span>
    );
  return (
    <button type="button" className={className} title={title} onClick={() => people.open(mention)}>
      {content}
    </button>
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
