import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { spell } from "../act/command.ts";
import { Frame } from "../act/Frame.tsx";
import { read, write } from "../api/client.ts";
import { mayDo, useMe } from "../api/me.ts";
import type { MemberDocument } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { Chip } from "../parts/Chip.tsx";
import { Command } from "../parts/Command.tsx";
import { Time } from "../parts/Figures.tsx";
import { Failure, Skeleton } from "../parts/States.tsx";
import { type Done, TeamPage, useTeamAct } from "./Team.tsx";

const ROLES = [
  { role: "admin", may: "may do everything, and decides who gets in" },
  { role: "member", may: "reads and changes all that is not private, and begins sessions" },
  { role: "guest", may: "reads what is not private, and acts where a session was granted by name" },
] as const;

/** The people of the workspace; an admin changes their roles, and removes them. */
export default function MembersPage() {
  const me = useMe();
  const answer = useQuery({ queryKey: ["members"], queryFn: ({ signal }) => read("/members", {}, signal) });
  const [asked, setAsked] = useState<{ act: "role" | "remove"; member: MemberDocument } | null>(null);
  const [done, setDone] = useState<Done | null>(null);
  const isAdmin = mayDo(me, "member.manage");
  const finish = (told: Done) => {
    setAsked(null);
    setDone(told);
  };
  const members = answer.data?.members ?? [];
  return (
    <TeamPage title="Members" done={done} tell={setDone}>
      {answer.isPending ? <Skeleton label="Reading the members" /> : null}
      {answer.isError ? <Failure error={answer.error} retry={() => void answer.refetch()} /> : null}
      <ul className="team-list" aria-label="Members">
        {members.map((member) => (
          <li key={member.name}>
            <p className="team-name">
              <b>{member.name}</b> {member.name === me?.user ? <Chip>you</Chip> : null}
            </p>
            <p className="team-about">
              <Chip kind={member.role === "admin" ? "accent" : "plain"}>{member.role}</Chip> since{" "}
              <Time at={member.since} as="moment" />
            </p>
            {isAdmin ? (
              <p className="team-acts">
                <Button
                  onClick={() => setAsked({ act: "role", member })}
                  aria-label={`Change role of ${member.name}`}
                >
                  Change role
                </Button>
                <Button
                  kind="quiet"
                  onClick={() => setAsked({ act: "remove", member })}
                  aria-label={`Remove ${member.name}`}
                >
                  Remove
                </Button>
              </p>
            ) : null}
          </li>
        ))}
      </ul>
      {isAdmin && members.length === 1 ? (
        <p className="team-hint">You are alone here. Invite the people you work with.</p>
      ) : null}
      {members.length > 0 ? (
        <section className="team-roles" aria-labelledby="team-roles">
          <h2 id="team-roles">What each role may do</h2>
          <dl>
            {ROLES.map(({ role, may }) => (
              <div key={role}>
                <dt>{role}</dt>
                <dd>{may}</dd>
              </div>
            ))}
          </dl>
          <Command
            line={spell(me?.workspace ?? "default", "member", "list")}
            label="that lists the members"
          />
        </section>
      ) : null}
      {asked?.act === "role" ? (
        <RoleDialog
          member={asked.member}
          isOwn={asked.member.name === me?.user}
          close={() => setAsked(null)}
          finish={finish}
        />
      ) : null}
      {asked?.act === "remove" ? (
        <RemoveDialog
          member={asked.member}
          isOwn={asked.member.name === me?.user}
          close={() => setAsked(null)}
          finish={finish}
        />
      ) : null}
    </TeamPage>
  );
}

interface Asked {
  member: MemberDocument;
  isOwn: boolean;
  close: () => void;
  finish: (done: Done) => void;
}

function RoleDialog({ member, isOwn, close, finish }: Asked) {
  const workspace = useMe()?.workspace ?? "default";
  const act = useTeamAct();
  const [role, setRole] = useState(member.role);
  const choice = useRef<HTMLFieldSetElement>(null);
  useEffect(() => choice.current?.querySelector<HTMLElement>("input:checked")?.focus(), []);
  const line = (to: string) => spell(workspace, "member", "role", member.name, to);
  const give = async (to: string, back: string | null): Promise<Done> => {
    await write("/members/{member}/role", { role: to }, undefined, { member: member.name });
    const told = { text: `${member.name} is ${article(to)} now`, command: line(to) };
    return back
      ? { ...told, undo: { verb: `Make ${article(back)} again`, run: () => give(back, to) } }
      : told;
  };
  const submit = async () => {
    // Who gave up the right to change roles cannot take it back.
    const after = await act.run(() => give(role, isOwn ? null : member.role));
    if (after) finish(after);
  };
  return (
    <Frame
      title={`Role of ${member.name}`}
      lead="It holds at once, also for their keys and wherever they are logged in."
      command={line(role)}
      problem={act.problem}
      submit={() => void submit()}
      verb={role === member.role ? "Change role" : `Make ${member.name} ${article(role)}`}
      busy={act.isBusy}
      disabled={role === member.role}
      close={close}
    >
      <div className="act-body">
        <fieldset className="team-choice" ref={choice}>
          <legend className="visually-hidden">Role</legend>
          {ROLES.map((one) => (
            <label key={one.role}>
              <input
                type="radio"
                name="role"
                checked={role === one.role}
                onChange={() => setRole(one.role)}
              />
              <span>
                {one.role}
                <small>{one.may}</small>
              </span>
            </label>
          ))}
        </fieldset>
        {isOwn && role !== member.role ? (
          <p className="act-hint">This is your own role: only another admin can give it back to you.</p>
        ) : (
          <p className="act-hint">It can be changed back at any time.</p>
        )}
      </div>
    </Frame>
  );
}

function RemoveDialog({ member, isOwn, close, finish }: Asked) {
  const workspace = useMe()?.workspace ?? "default";
  const act = useTeamAct();
  const { name, role } = member;
  const addAgain = async (): Promise<Done> => {
    await write("/members", { name, role });
    return {
      text: `${name} is ${article(role)} again, and needs a new key or invitation`,
      command: spell(workspace, "member", "add", "--role", role, name),
    };
  };
  const remove = async (): Promise<Done> => {
    await write("/members/{member}/remove", {}, undefined, { member: name });
    return {
      text: `${name} is removed`,
      command: spell(workspace, "member", "remove", name),
      undo: { verb: "Add again", run: addAgain },
    };
  };
  const submit = async () => {
    const after = await act.run(remove);
    if (after) finish(after);
  };
  return (
    <Frame
      title={`Remove ${name}`}
      lead={`What ${isOwn ? "you" : name} wrote stays, under the same name.`}
      command={spell(workspace, "member", "remove", name)}
      problem={act.problem}
      submit={() => void submit()}
      verb={`Remove ${name}`}
      busy={act.isBusy}
      close={close}
      isDanger
    >
      <ul className="act-notes">
        <li>
          {isOwn ? "Your" : "Their"} keys and login sessions end at once, and stay ended: that cannot be
          undone.
        </li>
        <li>
          {isOwn
            ? "Only another admin can add you again."
            : `You can add ${name} again; they then need a new key or invitation.`}
        </li>
      </ul>
    </Frame>
  );
}

function article(role: string): string {
  return role === "admin" ? "an admin" : `a ${role}`;
}
