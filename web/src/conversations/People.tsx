import { Link } from "@tanstack/react-router";
import { Archive, ArchiveRestore, GitFork, LogOut, UserPlus, X } from "lucide-react";
import type { ConversationDocument, ParticipantDocument } from "../api/types.ts";
import { count } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { visible } from "../thread/text.ts";
import { Avatar } from "./Avatar.tsx";
import { mayRemove, personOf } from "./people.ts";

export type TalkAct =
  | { kind: "add" }
  | { kind: "leave" }
  | { kind: "state" }
  | { kind: "fork" | "erase"; post: number }
  | { kind: "remove"; principal: string; name: string };

interface Props {
  conversation: ConversationDocument;
  present: readonly ParticipantDocument[];
  /** Called by name and not there. */
  absent: readonly { principal: string; name: string }[];
  names: ReadonlyMap<string, string>;
  viewer: string;
  mayPost: boolean;
  mayFork: boolean;
  open: (act: TalkAct) => void;
  add: (principal: string, name: string) => void;
}

/** Who takes part, who is called and does not, and what can be done with the conversation. */
export function People(props: Props) {
  const { conversation, present, absent, names, viewer } = props;
  const isOwner = conversation.owner === viewer;
  const isActive = conversation.state === "active";
  const mayChange = props.mayPost && isActive && conversation.is_participant;
  return (
    <>
      <section aria-labelledby="talk-people-head">
        <h2 id="talk-people-head">{count(present.length, "participant")}</h2>
        <ul className="people">
          {present.map((one) => {
            const person = personOf(one.principal, names);
            const name = visible(person.name);
            return (
              <li key={one.principal}>
                <Avatar person={person} />
                <span className="people-name">
                  <bdi className="clip">{name}</bdi>
                  <small className="clip">{aboutOf(one, conversation, viewer)}</small>
                </span>
                {one.session && one.label ? (
                  <Link
                    to="/s/$label"
                    params={{ label: one.label }}
                    className="people-session"
                    aria-label={`The session of ${name}`}
                  >
                    session
                  </Link>
                ) : null}
                {mayChange && mayRemove(one, conversation.owner, viewer) ? (
                  <button
                    type="button"
                    className="icon-button"
                    title="Remove"
                    aria-label={`Remove ${name}`}
                    onClick={() => props.open({ kind: "remove", principal: one.principal, name })}
                  >
                    <X aria-hidden="true" />
                  </button>
                ) : null}
              </li>
            );
          })}
        </ul>
        {mayChange ? (
          <Button icon={<UserPlus aria-hidden="true" />} onClick={() => props.open({ kind: "add" })}>
            Add
          </Button>
        ) : null}
      </section>
      {absent.length > 0 ? (
        <section aria-labelledby="talk-absent-head">
          <h2 id="talk-absent-head">Called, but not here</h2>
          <ul className="people">
            {absent.map((one) => {
              const person = personOf(one.principal, names);
              const name = visible(person.name === person.id ? one.name : person.name);
              return (
                <li key={one.principal}>
                  <Avatar person={{ ...person, name }} />
                  <span className="people-name">
                    <bdi className="clip">{name}</bdi>
                    <small className="clip">reads nothing of it</small>
                  </span>
                  {mayChange ? (
                    <Button onClick={() => props.add(one.principal, name)} aria-label={`Invite ${name}`}>
                      Invite
                    </Button>
                  ) : null}
                </li>
              );
            })}
          </ul>
        </section>
      ) : null}
      <section aria-labelledby="talk-acts-head">
        <h2 id="talk-acts-head">This conversation</h2>
        <div className="talk-acts">
          {props.mayFork && conversation.posts > 0 ? (
            <Button
              icon={<GitFork aria-hidden="true" />}
              onClick={() => props.open({ kind: "fork", post: conversation.posts })}
            >
              Fork
            </Button>
          ) : null}
          {isOwner ? (
            <Button
              icon={isActive ? <Archive aria-hidden="true" /> : <ArchiveRestore aria-hidden="true" />}
              onClick={() => props.open({ kind: "state" })}
            >
              {isActive ? "Archive" : "Make active"}
            </Button>
          ) : null}
          {conversation.is_participant && !isOwner && isActive ? (
            <Button icon={<LogOut aria-hidden="true" />} onClick={() => props.open({ kind: "leave" })}>
              Leave
            </Button>
          ) : null}
        </div>
        <p className="talk-about">
          {conversation.visibility === "public"
            ? "Public: the whole workspace reads it."
            : "Private: only those who take part read it."}{" "}
          Agents take at most {count(conversation.agent_turns_max, "turn")} after a person’s post.
        </p>
      </section>
    </>
  );
}

function aboutOf(one: ParticipantDocument, conversation: ConversationDocument, viewer: string): string {
  const words = [one.principal.startsWith("agent:") ? "agent" : ""];
  if (one.is_thinking) words.push("thinking…");
  if (one.principal === viewer) words.push("you");
  if (one.principal === conversation.owner) words.push("creator");
  return words.filter(Boolean).join(", ") || one.principal;
}
