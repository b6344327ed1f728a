import type { MentionSuggestion } from "../api/types.ts";
import { visible } from "../thread/text.ts";
import { Avatar } from "./Avatar.tsx";

/** Whom the writer may mean, the likeliest first; the field keeps the focus, and moves the choice by its keys. */
export function SuggestionList(props: {
  id: string;
  options: readonly MentionSuggestion[];
  active: number;
  pick: (option: MentionSuggestion) => void;
  /** What is said of one who does not take part. */
  absent: (option: MentionSuggestion) => string;
}) {
  return (
    <div role="listbox" id={props.id} className="suggestions" aria-label="People and agents">
      {props.options.map((option, place) => (
        <div
          key={`${option.kind}:${option.id}`}
          role="option"
          id={`${props.id}-${place}`}
          aria-selected={place === props.active}
          tabIndex={-1}
          className="suggestion"
          // The field would lose the focus before the click.
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => props.pick(option)}
          onKeyDown={() => undefined}
        >
          <Avatar
            person={{
              kind: option.kind === "agent" ? "agent" : "human",
              id: option.id,
              name: option.name,
            }}
          />
          <bdi className="clip">{visible(option.name)}</bdi>
          <span className="mono clip faint">
            {option.kind}:{option.id}
          </span>
          <span className="suggestion-note">{option.is_present ? "takes part" : props.absent(option)}</span>
        </div>
      ))}
    </div>
  );
}

/** The place after a key that moves through a list, or null for another key. */
export function moved(key: string, active: number, count: number): number | null {
  if (count === 0) return null;
  if (key === "ArrowDown") return (active + 1) % count;
  if (key === "ArrowUp") return active <= 0 ? count - 1 : active - 1;
  return null;
}
