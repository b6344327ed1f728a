import { useQuery } from "@tanstack/react-query";
import { KeyRound } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { spell } from "../act/command.ts";
import { Field, Frame } from "../act/Frame.tsx";
import { read, write } from "../api/client.ts";
import { useMe } from "../api/me.ts";
import { SERVER } from "../api/place.ts";
import type { KeyDocument } from "../api/types.ts";
import { count } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Chip } from "../parts/Chip.tsx";
import { Command } from "../parts/Command.tsx";
import { Time } from "../parts/Figures.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { Once } from "./Once.tsx";
import { bare, Days, type Done, TeamPage, useTeamAct } from "./Team.tsx";

const DAYS = [1, 7, 30, 90, 365] as const;
const EVERYTHING = ["action:*", "credential:*", "tool:*"];
const SCOPES = [
  { id: "all", name: "Everything that you may do", allow: null },
  { id: "read", name: "Read only", allow: ["action:read"] },
  { id: "send", name: "Read, and send messages", allow: ["action:read", "action:invoke", "tool:*"] },
  { id: "own", name: "What you list", allow: [] },
] as const;

/** The API keys of the reader, and of all for an admin; a new one is shown once. */
export default function KeysPage() {
  const me = useMe();
  const answer = useQuery({ queryKey: ["keys"], queryFn: ({ signal }) => read("/keys", {}, signal) });
  const [isAsking, setAsking] = useState(false);
  const [revoked, setRevoked] = useState<KeyDocument | null>(null);
  const [made, setMade] = useState<{ key: string; name: string } | null>(null);
  const [done, setDone] = useState<Done | null>(null);
  const keys = [...(answer.data?.keys ?? [])].reverse();
  const valid = keys.filter((key) => key.state === "valid");
  const ended = keys.filter((key) => key.state !== "valid");
  const own = valid.filter((key) => bare(key.holder) === me?.user);
  const others = valid.filter((key) => bare(key.holder) !== me?.user);
  return (
    <TeamPage
      title="Keys"
      done={done}
      tell={setDone}
      aside={
        <Button kind="primary" icon={<KeyRound aria-hidden="true" />} onClick={() => setAsking(true)}>
          New key
        </Button>
      }
    >
      {made ? (
        <Once title={`The key ${made.name}, shown this once`} text={made.key} close={() => setMade(null)}>
          <p>
            Whoever has it acts as you. Give it to the command line, which asks for it:{" "}
            <Command line={`turntree key store ${SERVER}`} label="that stores the key" />
          </p>
        </Once>
      ) : null}
      {answer.isPending ? <Skeleton label="Reading the keys" /> : null}
      {answer.isError ? <Failure error={answer.error} retry={() => void answer.refetch()} /> : null}
      {answer.isSuccess && own.length === 0 && !made ? (
        <Empty title="You have no key" icon={<KeyRound aria-hidden="true" />}>
          The command line and programs use this server with a key. In the browser you need none.
        </Empty>
      ) : null}
      {own.length > 0 ? <KeyRows name="Your keys" keys={own} revoke={setRevoked} /> : null}
      {others.length > 0 ? (
        <section>
          <h2 className="team-of">Keys of others</h2>
          <KeyRows name="Keys of others" keys={others} revoke={setRevoked} />
        </section>
      ) : null}
      {ended.length > 0 ? (
        <details className="team-ended">
          <summary>{count(ended.length, "key")} that ended</summary>
          <KeyRows name="Keys that ended" keys={ended} />
        </details>
      ) : null}
      {isAsking ? (
        <KeyDialog
          close={() => setAsking(false)}
          finish={(name, key) => {
            setAsking(false);
            setDone(null);
            setMade({ name, key });
          }}
        />
      ) : null}
      {revoked ? (
        <RevokeDialog
          document={revoked}
          close={() => setRevoked(null)}
          finish={(told) => {
            setRevoked(null);
            setDone(told);
          }}
        />
      ) : null}
    </TeamPage>
  );
}

function KeyRows(props: { name: string; keys: readonly KeyDocument[]; revoke?: (key: KeyDocument) => void }) {
  return (
    <ul className="team-list" aria-label={props.name}>
      {props.keys.map((key) => (
        <li key={key.id}>
          <p className="team-name">
            <b>{key.name}</b> <code>{key.id}</code>
            {key.state === "valid" ? null : <Chip>{key.state}</Chip>}
          </p>
          <p className="team-about">
            {key.agent ? `${key.agent} for ${bare(key.holder)}` : bare(key.holder)} · {permitted(key)} ·{" "}
            {key.last_used_at ? (
              <>
                used <Time at={key.last_used_at} />
              </>
            ) : (
              "never used"
            )}{" "}
            ·{" "}
            {key.revoked_at ? (
              <>
                revoked by {bare(key.revoked_by ?? "")}, <Time at={key.revoked_at} as="moment" />
                {key.reason ? `: ${key.reason}` : ""}
              </>
            ) : (
              <>
                until <Time at={key.expires_at} as="moment" />
              </>
            )}
          </p>
          {props.revoke ? (
            <p className="team-acts">
              <Button
                kind="quiet"
                onClick={() => props.revoke?.(key)}
                aria-label={`Revoke the key ${key.name} of ${bare(key.holder)}`}
              >
                Revoke
              </Button>
            </p>
          ) : null}
        </li>
      ))}
    </ul>
  );
}

function permitted(key: KeyDocument): string {
  const isAll = EVERYTHING.every((pattern) => key.allow.includes(pattern)) && key.deny.length === 0;
  if (isAll) return "all that its holder may do";
  const without = key.deny.length ? `, not ${key.deny.join(", ")}` : "";
  return `${key.allow.join(", ") || "nothing"}${without}`;
}

function KeyDialog(props: { close: () => void; finish: (name: string, key: string) => void }) {
  const workspace = useMe()?.workspace ?? "default";
  const act = useTeamAct();
  const [name, setName] = useState("");
  const [scope, setScope] = useState<string>("all");
  const [listed, setListed] = useState("action:read");
  const [days, setDays] = useState(90);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const patterns = listed.split(/[\s,]+/).filter(Boolean);
  const chosen = SCOPES.find((one) => one.id === scope)?.allow ?? null;
  const allow = scope === "own" ? patterns : chosen;
  const submit = async () => {
    const made = await act.run(() =>
      write("/keys", {
        name: name.trim(),
        allow: allow ? [...allow] : null,
        expires_in_days: days,
      }),
    );
    if (made) props.finish(name.trim(), made.key);
  };
  const options = (allow ?? []).flatMap((pattern) => ["--allow", pattern]);
  return (
    <Frame
      title="New key"
      lead="It is shown once. It permits nothing that you may not do yourself, and can be revoked at any time."
      command={spell(
        workspace,
        "key",
        "create",
        ...options,
        "--expires-in",
        String(days),
        name.trim() || "NAME",
      )}
      problem={act.problem}
      submit={() => void submit()}
      verb="Make the key"
      busy={act.isBusy}
      disabled={!name.trim() || (scope === "own" && patterns.length === 0)}
      close={props.close}
    >
      <div className="act-body">
        <Field name="What it is for" id="key-name" inputRef={field} value={name} change={setName} />
        <fieldset className="team-choice">
          <legend>It permits</legend>
          {SCOPES.map((one) => (
            <label key={one.id}>
              <input type="radio" name="scope" checked={scope === one.id} onChange={() => setScope(one.id)} />
              <span>
                {one.name}
                {one.allow?.length ? <small>{one.allow.join(", ")}</small> : null}
              </span>
            </label>
          ))}
        </fieldset>
        {scope === "own" ? (
          <Field
            name="Permissions, with spaces between them"
            id="key-allow"
            value={listed}
            change={setListed}
            hint="action:read, action:invoke, action:create, action:configure, tool:NAME"
          />
        ) : null}
        <Days id="key-days" name="It expires after" days={DAYS} value={days} change={setDays} />
      </div>
    </Frame>
  );
}

function RevokeDialog(props: { document: KeyDocument; close: () => void; finish: (done: Done) => void }) {
  const workspace = useMe()?.workspace ?? "default";
  const act = useTeamAct();
  const { id, name } = props.document;
  const [reason, setReason] = useState("");
  const words = ["key", "revoke", id, ...(reason.trim() ? ["--reason", reason.trim()] : [])];
  const submit = async () => {
    const done = await act.run(async (): Promise<Done> => {
      await write("/keys/{key}/revoke", { reason: reason.trim() }, undefined, { key: id });
      return { text: `The key ${name} is revoked`, command: spell(workspace, ...words) };
    });
    if (done) props.finish(done);
  };
  return (
    <Frame
      title={`Revoke the key ${name}`}
      lead="It opens nothing from now on, and where a person logged in with it they are logged out. This cannot be undone; you can make another."
      command={spell(workspace, ...words)}
      problem={act.problem}
      submit={() => void submit()}
      verb="Revoke"
      busy={act.isBusy}
      close={props.close}
      isDanger
    >
      <div className="act-body">
        <Field name="Reason, shown in the list" id="key-reason" value={reason} change={setReason} />
      </div>
    </Frame>
  );
}
