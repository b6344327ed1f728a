import { useQuery } from "@tanstack/react-query";
import { type KeyboardEvent, useEffect, useId, useRef, useState } from "react";
import { spell } from "../act/command.ts";
import { Field, Frame } from "../act/Frame.tsx";
import { useWorkspace } from "../act/useAct.ts";
import { write } from "../api/client.ts";
import { mentionSuggestions } from "../api/conversations.ts";
import type { ConversationDocument, MentionSuggestion } from "../api/types.ts";
import { useLater } from "../parts/useLater.ts";
import { type Done, useTeamAct } from "../team/Team.tsx";
import { visible } from "../thread/text.ts";
import { nameFor } from "./people.ts";
import { moved, SuggestionList } from "./SuggestionList.tsx";

const TYPED_MS = 80;

interface Asked {
  conversation: ConversationDocument;
  close: () => void;
  finish: (done: Done) => void;
}

/** Adding and removing, each of which takes the other back. */
export function membership(workspace: string, conversation: ConversationDocument) {
  const names = { conversation: conversation.name };
  const add = async (principal: string, name: string): Promise<Done> => {
    const path = "/conversations/{conversation}/participants";
    const made = await write(path, { participant: principal }, undefined, names);
    if (!made.changed) return { text: `${name} takes part already` };
    return {
      text: `${name} takes part now`,
      command: spell(workspace, "conversation", "add", conversation.name, principal),
      undo: { verb: "Remove again", run: () => remove(principal, name) },
    };
  };
  const remove = async (principal: string, name: string): Promise<Done> => {
    const path = "/conversations/{conversation}/participants/remove";
    await write(path, { participant: principal }, undefined, names);
    return {
      text: `${name} takes part no longer`,
      command: spell(workspace, "conversation", "remove", conversation.name, principal),
      undo: { verb: "Add again", run: () => add(principal, name) },
    };
  };
  return { add, remove };
}

/** Archiving a conversation, and taking that back. */
export function stateChange(workspace: string, conversation: ConversationDocument) {
  const set = async (state: "active" | "archived"): Promise<Done> => {
    const names = { conversation: conversation.name };
    await write("/conversations/{conversation}/state", { state }, undefined, names);
    const back = state === "active" ? "archived" : "active";
    return {
      text: state === "archived" ? "The conversation is archived" : "The conversation is active again",
      command: spell(workspace, "conversation", "set-state", conversation.name, state),
      undo: {
        verb: back === "active" ? "Make it active again" : "Archive it again",
        run: () => set(back),
      },
    };
  };
  return set;
}

export function CreateDialog(props: { close: () => void; created: (made: ConversationDocument) => void }) {
  const workspace = useWorkspace();
  const act = useTeamAct();
  const [title, setTitle] = useState("");
  const [ownName, setName] = useState<string | null>(null);
  const [people, setPeople] = useState("");
  const [isPublic, setPublic] = useState(false);
  const name = (ownName ?? nameFor(title)).trim();
  const participants = people.split(/[\s,;]+/).filter(Boolean);
  const submit = async () => {
    const made = await act.run(() =>
      write("/conversations", {
        name,
        title: title.trim() || null,
        participants,
        visibility: isPublic ? "public" : "private",
      }),
    );
    if (made) props.created(made);
  };
  return (
    <Frame
      title="New conversation"
      lead="People and agents talk in one place; each answer is a turn that can be opened and forked."
      command={spell(
        workspace,
        "conversation",
        "create",
        ...(title.trim() ? ["--title", title.trim()] : []),
        ...(isPublic ? ["--public"] : []),
        ...participants.flatMap((one) => ["--with", one]),
        name || "NAME",
      )}
      problem={act.problem}
      submit={() => void submit()}
      verb="Create"
      busy={act.isBusy}
      disabled={name === ""}
      close={props.close}
    >
      <div className="act-body">
        <Field name="What it is about" id="talk-title" value={title} change={setTitle} />
        <Field
          name="Name"
          id="talk-name"
          value={ownName ?? nameFor(title)}
          change={(text) => setName(text)}
          hint="It is part of the address, and what commands call it."
        />
        <Field
          name="People and agents"
          id="talk-people"
          value={people}
          change={setPeople}
          placeholder="bob atlas"
          hint="Their names, separated by blanks. You can add them later as well, and an agent comes in when it is mentioned."
        />
        <fieldset className="team-choice">
          <legend className="visually-hidden">Who reads it</legend>
          <label>
            <input type="radio" name="visibility" checked={!isPublic} onChange={() => setPublic(false)} />
            <span>
              Private<small>Only those who take part read it.</small>
            </span>
          </label>
          <label>
            <input type="radio" name="visibility" checked={isPublic} onChange={() => setPublic(true)} />
            <span>
              Public<small>The whole workspace reads it, and members join by a first post.</small>
            </span>
          </label>
        </fieldset>
      </div>
    </Frame>
  );
}

/** Adds a person or an agent, found by a few letters of a name. */
export function AddDialog({ conversation, close, finish }: Asked) {
  const workspace = useWorkspace();
  const act = useTeamAct();
  const list = useId();
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [active, setActive] = useState(-1);
  const asked = useLater(text.trim(), TYPED_MS);
  const answer = useQuery(mentionSuggestions(conversation.name, asked));
  const options = (answer.data ?? []).filter((one) => !one.is_present);
  const isCurrent = asked === text.trim() && !answer.isFetching;
  const chosen = Math.min(active, options.length - 1);
  // The first one is chosen by a few letters, or by a key, and never by Enter alone.
  useEffect(() => setActive(asked ? 0 : -1), [asked]);
  const add = async (principal: string, name: string) => {
    const done = await act.run(() => membership(workspace, conversation).add(principal, name));
    if (done) finish(done);
  };
  const pick = (option: MentionSuggestion) =>
    void add(`${option.kind === "agent" ? "agent" : "human"}:${option.id}`, visible(option.name));
  const submit = () => {
    const option = isCurrent ? options[chosen] : undefined;
    if (option) pick(option);
    else if (text.trim()) void add(text.trim(), text.trim());
  };
  const onKey = (event: KeyboardEvent) => {
    const next = moved(event.key, chosen, options.length);
    if (next === null) return;
    event.preventDefault();
    setActive(next);
  };
  return (
    <Frame
      title={`Add to ${visible(conversation.title)}`}
      lead="Who comes in reads all that was said, and agents answer when they are mentioned."
      command={spell(workspace, "conversation", "add", conversation.name, text.trim() || "NAME")}
      problem={act.problem}
      submit={submit}
      verb="Add"
      busy={act.isBusy}
      disabled={chosen < 0 && text.trim() === ""}
      close={close}
    >
      <div className="act-body">
        <div className="act-field">
          <label htmlFor="talk-add">Person or agent</label>
          <input
            id="talk-add"
            ref={field}
            role="combobox"
            aria-expanded={options.length > 0}
            aria-controls={list}
            aria-autocomplete="list"
            aria-activedescendant={chosen >= 0 ? `${list}-${chosen}` : undefined}
            value={text}
            onChange={(event) => setText(event.target.value)}
            onKeyDown={onKey}
            autoComplete="off"
            autoCapitalize="off"
            spellCheck={false}
          />
        </div>
        {options.length > 0 ? (
          <SuggestionList id={list} options={options} active={chosen} pick={pick} absent={() => ""} />
        ) : (
          <p className="act-hint" id={list} role="status">
            {answer.isFetching
              ? "Looking…"
              : text.trim()
                ? "You may add no person or agent of this name. A private agent is added by its owner."
                : "All whom you may add take part already."}
          </p>
        )}
      </div>
    </Frame>
  );
}

export function RemoveDialog(props: Asked & { principal: string; name: string }) {
  const { conversation, principal, name } = props;
  const workspace = useWorkspace();
  const act = useTeamAct();
  const submit = async () => {
    const done = await act.run(() => membership(workspace, conversation).remove(principal, name));
    if (done) props.finish(done);
  };
  return (
    <Frame
      title={`Remove ${name}`}
      lead={`What ${name} wrote stays.`}
      command={spell(workspace, "conversation", "remove", conversation.name, principal)}
      problem={act.problem}
      submit={() => void submit()}
      verb={`Remove ${name}`}
      busy={act.isBusy}
      close={props.close}
      isDanger
    >
      <ul className="act-notes">
        <li>
          From now on {name} reads nothing of it: no post, no session in which an agent answers, and no fork.
        </li>
        <li>{name} can be added again, and then reads what was said meanwhile.</li>
      </ul>
    </Frame>
  );
}

export function LeaveDialog({ conversation, close, left }: Omit<Asked, "finish"> & { left: () => void }) {
  const workspace = useWorkspace();
  const act = useTeamAct();
  const path = "/conversations/{conversation}/participants/remove";
  const submit = async () => {
    const done = await act.run(() => write(path, {}, undefined, { conversation: conversation.name }));
    if (done) left();
  };
  return (
    <Frame
      title={`Leave ${visible(conversation.title)}`}
      lead="What you wrote stays."
      command={spell(workspace, "conversation", "leave", conversation.name)}
      problem={act.problem}
      submit={() => void submit()}
      verb="Leave"
      busy={act.isBusy}
      close={close}
      isDanger
    >
      <ul className="act-notes">
        {conversation.visibility === "public" ? (
          <li>It is public: you can read it and come back by a post.</li>
        ) : (
          <li>It is private: you read nothing more of it until a participant adds you again.</li>
        )}
      </ul>
    </Frame>
  );
}

export function ForkTalkDialog(props: {
  conversation: ConversationDocument;
  post: number;
  close: () => void;
  forked: (made: ConversationDocument) => void;
}) {
  const { conversation, post } = props;
  const workspace = useWorkspace();
  const act = useTeamAct();
  const [name, setName] = useState("");
  const submit = async () => {
    const names = { conversation: conversation.name };
    const body = { at: post, name: name.trim() || null };
    const made = await act.run(() => write("/conversations/{conversation}/fork", body, undefined, names));
    if (made) props.forked(made);
  };
  return (
    <Frame
      title={`Fork at post ${post}`}
      lead="A new conversation begins with all posts up to this one. The other goes on as it is."
      command={spell(
        workspace,
        "conversation",
        "fork",
        conversation.name,
        ...(name.trim() ? [name.trim()] : []),
        "--at",
        String(post),
      )}
      problem={act.problem}
      submit={() => void submit()}
      verb="Fork"
      busy={act.isBusy}
      close={props.close}
    >
      <div className="act-body">
        <Field
          name="Name"
          id="talk-fork"
          value={name}
          change={setName}
          placeholder="chosen for you"
          hint="Agents take part in the fork, each in a session that begins where it was at that post. People are added by you."
        />
      </div>
    </Frame>
  );
}

export function EraseDialog(props: Asked & { post: number }) {
  const { conversation, post } = props;
  const workspace = useWorkspace();
  const act = useTeamAct();
  const [reason, setReason] = useState("");
  const why = reason.trim() || "asked for";
  const submit = async () => {
    const names = { conversation: conversation.name, post: String(post) };
    const path = "/conversations/{conversation}/posts/{post}/erase";
    const done = await act.run(() => write(path, { reason: why }, undefined, names));
    if (done) props.finish({ text: `Post ${post} is erased` });
  };
  return (
    <Frame
      title={`Erase post ${post}`}
      lead="Its words are gone for good, also where agents were told of them."
      command={spell(workspace, "conversation", "erase", conversation.name, String(post), "--reason", why)}
      problem={act.problem}
      submit={() => void submit()}
      verb="Erase for good"
      busy={act.isBusy}
      close={props.close}
      isDanger
    >
      <div className="act-body">
        <Field
          name="Reason"
          id="talk-erase"
          value={reason}
          change={setReason}
          placeholder="asked for"
          hint="The reason stays, with the digest of the post. This cannot be undone."
        />
      </div>
    </Frame>
  );
}
