import { useQuery } from "@tanstack/react-query";
import { MailPlus } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { spell } from "../act/command.ts";
import { Field, Frame } from "../act/Frame.tsx";
import { read, write } from "../api/client.ts";
import { mayDo, useMe } from "../api/me.ts";
import { SERVER } from "../api/place.ts";
import type { InvitationDocument } from "../api/types.ts";
import { count } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Chip } from "../parts/Chip.tsx";
import { Time } from "../parts/Figures.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { Once } from "./Once.tsx";
import { bare, Days, type Done, TeamPage, useTeamAct } from "./Team.tsx";

const DAYS = [1, 7, 30] as const;
const ROLES = ["member", "guest", "admin"] as const;

/** The invitations of the workspace; an admin makes one, and copies its link once. */
export default function InvitationsPage() {
  const me = useMe();
  const isAdmin = mayDo(me, "member.manage");
  const answer = useQuery({
    queryKey: ["invitations"],
    queryFn: ({ signal }) => read("/invitations", {}, signal),
    enabled: isAdmin,
  });
  const [isAsking, setAsking] = useState(false);
  const [ended, setEnded] = useState<InvitationDocument | null>(null);
  const [made, setMade] = useState<{ link: string; invitee: string } | null>(null);
  const [done, setDone] = useState<Done | null>(null);
  const all = answer.data?.invitations ?? [];
  const open = all.filter((one) => one.state === "open");
  const others = all.filter((one) => one.state !== "open").reverse();
  if (me && !isAdmin)
    return (
      <TeamPage title="Invitations" done={null} tell={setDone}>
        <Empty title="Admins invite people" icon={<MailPlus aria-hidden="true" />}>
          Ask one of them; the members page says who they are.
        </Empty>
      </TeamPage>
    );
  return (
    <TeamPage
      title="Invitations"
      done={done}
      tell={setDone}
      aside={
        <Button kind="primary" icon={<MailPlus aria-hidden="true" />} onClick={() => setAsking(true)}>
          Invite a person
        </Button>
      }
    >
      {made ? (
        <Once
          title={`The link for ${made.invitee}, shown this once`}
          text={made.link}
          close={() => setMade(null)}
        >
          <p>Send it to them alone: it lets one person in, once. Nothing happens before they ask for it.</p>
        </Once>
      ) : null}
      {answer.isPending ? <Skeleton label="Reading the invitations" /> : null}
      {answer.isError ? <Failure error={answer.error} retry={() => void answer.refetch()} /> : null}
      {answer.isSuccess && open.length === 0 && !made ? (
        <Empty title="No invitation is open" icon={<MailPlus aria-hidden="true" />}>
          An invitation is a link that lets one person in, once, with the role that you choose.
        </Empty>
      ) : null}
      {open.length > 0 ? (
        <ul className="team-list" aria-label="Open invitations">
          {open.map((one) => (
            <li key={one.id}>
              <p className="team-name">
                <b>{bare(one.invitee)}</b> <code>{one.id}</code>
              </p>
              <p className="team-about">
                <Chip>{one.role}</Chip> by {bare(one.created_by)}, until{" "}
                <Time at={one.expires_at} as="moment" />
              </p>
              <p className="team-acts">
                <Button
                  kind="quiet"
                  onClick={() => setEnded(one)}
                  aria-label={`Revoke the invitation of ${bare(one.invitee)}`}
                >
                  Revoke
                </Button>
              </p>
            </li>
          ))}
        </ul>
      ) : null}
      {others.length > 0 ? (
        <details className="team-ended">
          <summary>{count(others.length, "invitation")} that ended</summary>
          <ul className="team-list">
            {others.map((one) => (
              <li key={one.id}>
                <p className="team-name">
                  <b>{bare(one.invitee)}</b> <code>{one.id}</code>
                </p>
                <p className="team-about">
                  <Chip kind={one.state === "accepted" ? "ok" : "plain"}>{one.state}</Chip>
                  {one.ended_at ? <Time at={one.ended_at} as="moment" /> : null}
                  {one.accepted_by
                    ? ` by ${bare(one.accepted_by)}`
                    : one.revoked_by
                      ? ` by ${bare(one.revoked_by)}`
                      : ""}
                </p>
              </li>
            ))}
          </ul>
        </details>
      ) : null}
      {isAsking ? (
        <InviteDialog
          close={() => setAsking(false)}
          finish={(invitee, link) => {
            setAsking(false);
            setDone(null);
            setMade({ invitee, link });
          }}
        />
      ) : null}
      {ended ? (
        <RevokeDialog
          invitation={ended}
          close={() => setEnded(null)}
          finish={(told) => {
            setEnded(null);
            setDone(told);
          }}
        />
      ) : null}
    </TeamPage>
  );
}

function InviteDialog(props: { close: () => void; finish: (invitee: string, link: string) => void }) {
  const workspace = useMe()?.workspace ?? "default";
  const act = useTeamAct();
  const [invitee, setInvitee] = useState("");
  const [role, setRole] = useState<string>("member");
  const [days, setDays] = useState(7);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = async () => {
    const made = await act.run(() =>
      write("/invitations", { invitee: invitee.trim(), role, expires_in_days: days }),
    );
    if (made) props.finish(bare(made.invitation.invitee), `${SERVER}/login#code=${made.code}`);
  };
  return (
    <Frame
      title="Invite a person"
      lead="They get a link, which lets them in once. It can be revoked until it is accepted."
      command={spell(
        workspace,
        "invitation",
        "create",
        "--role",
        role,
        "--expires-in",
        String(days),
        invitee.trim() || "NAME",
      )}
      problem={act.problem}
      submit={() => void submit()}
      verb="Make the link"
      busy={act.isBusy}
      disabled={!invitee.trim()}
      close={props.close}
    >
      <div className="act-body">
        <Field
          name="Name, or e-mail address"
          id="invite-name"
          inputRef={field}
          value={invitee}
          change={setInvitee}
          hint="They are called by it here."
        />
        <div className="act-field">
          <label htmlFor="invite-role">Role</label>
          <select id="invite-role" value={role} onChange={(event) => setRole(event.target.value)}>
            {ROLES.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </div>
        <Days id="invite-days" name="The link can be used for" days={DAYS} value={days} change={setDays} />
      </div>
    </Frame>
  );
}

function RevokeDialog(props: {
  invitation: InvitationDocument;
  close: () => void;
  finish: (done: Done) => void;
}) {
  const workspace = useMe()?.workspace ?? "default";
  const act = useTeamAct();
  const { id, invitee } = props.invitation;
  const command = spell(workspace, "invitation", "revoke", id);
  const submit = async () => {
    const done = await act.run(async (): Promise<Done> => {
      await write("/invitations/{invitation}/revoke", {}, undefined, { invitation: id });
      return { text: `The invitation of ${bare(invitee)} is revoked`, command };
    });
    if (done) props.finish(done);
  };
  return (
    <Frame
      title={`Revoke the invitation of ${bare(invitee)}`}
      lead="Its link opens nothing from now on. This cannot be undone; you can invite them again."
      command={command}
      problem={act.problem}
      submit={() => void submit()}
      verb="Revoke"
      busy={act.isBusy}
      close={props.close}
      isDanger
    />
  );
}
