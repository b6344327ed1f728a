import { visible } from "../thread/text.ts";
import { initials, type Person, toneOfPerson } from "./people.ts";

/**
 * A person as a circle, an agent as a square, with the letters of their name. A picture of theirs is somewhere else
 * on the network, and the page loads nothing from there: each visit would tell its owner who reads.
 */
export function Avatar({ person }: { person: Person }) {
  return (
    <i className={`avatar of-${person.kind} tone-${toneOfPerson(person)}`} aria-hidden="true">
      {visible(initials(person.name))}
    </i>
  );
}
