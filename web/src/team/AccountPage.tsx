import { useMutation, useQuery } from "@tanstack/react-query";
import { LogOut } from "lucide-react";
import { useState } from "react";
import { spell } from "../act/command.ts";
import { Frame } from "../act/Frame.tsx";
import { read, write } from "../api/client.ts";
import { mayDo, useMe } from "../api/me.ts";
import { forgetWords } from "../api/ownWords.ts";
import { PLACE_HERE } from "../api/place.ts";
import type { LoginDocument } from "../api/types.ts";
import { Button } from "../parts/Button.tsx";
import { Chip } from "../parts/Chip.tsx";
import { Command } from "../parts/Command.tsx";
import { Time } from "../parts/Figures.tsx";
import { Failure, Skeleton } from "../parts/States.tsx";
import { visible } from "../thread/text.ts";
import { bare, type Done, TeamPage, useTeamAct } from "./Team.tsx";

/** Who is logged in, where else, and the way out. */
export default function AccountPage() {
  const me = useMe();
  const answer = useQuery({
    queryKey: ["logins"],
    queryFn: ({ signal }) => read("/login-sessions", {}, signal),
  });
  const provider = useQuery({
    queryKey: ["identity-provider"],
    queryFn: ({ signal }) => read("/identity-provider", {}, signal),
  });
  const [ended, setEnded] = useState<LoginDocument | null>(null);
  const [done, setDone] = useState<Done | null>(null);
  const logins = (answer.data?.login_sessions ?? []).filter((one) => bare(one.holder) === me?.user);
  const isAdmin = mayDo(me, "member.manage");
  // Nothing is read again afterwards: this browser may not.
  const leaving = useMutation({
    mutationFn: () => write("/logout", {}),
    onSuccess: () => {
      forgetWords();
      location.assign(`${PLACE_HERE}/login`);
    },
  });
  return (
    <TeamPage title="Your account" done={done} tell={setDone}>
      {me ? (
        <section className="team-you" aria-label="You">
          <p>
            You are <b>{me.user}</b> in <b>{me.workspace}</b>.
          </p>
          <Button
            icon={<LogOut aria-hidden="true" />}
            onClick={() => leaving.mutate()}
            aria-busy={leaving.isPending}
          >
            Log out
          </Button>
          {leaving.error ? <Failure error={leaving.error} compact /> : null}
        </section>
      ) : null}
      <h2 className="team-of">Where you are logged in</h2>
      {answer.isPending ? <Skeleton rows={2} label="Reading your login sessions" /> : null}
      {answer.isError ? <Failure error={answer.error} retry={() => void answer.refetch()} /> : null}
      <ul className="team-list" aria-label="Where you are logged in">
        {logins.map((login) => (
          <li key={login.id}>
            <p className="team-name">
              <b>With {METHODS[login.method] ?? login.method}</b> <code>{login.id}</code>
              {login.id === me?.login ? <Chip kind="accent">this browser</Chip> : null}
            </p>
            <p className="team-about">
              since <Time at={login.created_at} as="moment" /> · used <Time at={login.last_used_at} /> · until{" "}
              <Time at={login.expires_at} as="moment" />
            </p>
            {login.id === me?.login ? null : (
              <p className="team-acts">
                <Button
                  kind="quiet"
                  onClick={() => setEnded(login)}
                  aria-label={`End the login session ${login.id}`}
                >
                  End
                </Button>
              </p>
            )}
          </li>
        ))}
      </ul>
      {answer.isSuccess && logins.length === 1 ? (
        <p className="team-hint">You are logged in nowhere else.</p>
      ) : null}
      {provider.data?.name ? (
        <section className="team-roles" aria-labelledby="team-linked">
          <h2 id="team-linked">Linked accounts</h2>
          <p className="team-hint">
            With an account at {visible(provider.data.name)} that is linked to you, you log in without a key
            or a password.
          </p>
          <a className="button" href={`${PLACE_HERE}/login#accounts`}>
            Link or unlink accounts
          </a>
        </section>
      ) : null}
      {isAdmin ? (
        <section className="team-roles" aria-labelledby="team-password">
          <h2 id="team-password">Password</h2>
          <p className="team-hint">
            An admin can log in with a password. It is set and changed on the ledger's own machine; everywhere
            you are logged in, you are logged out then.
          </p>
          <Command
            line={spell(me?.workspace ?? "default", "member", "password")}
            label="that sets a password"
          />
        </section>
      ) : null}
      {ended ? (
        <EndDialog
          login={ended}
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

const METHODS: Record<string, string> = {
  password: "a password",
  key: "an API key",
  invitation: "an invitation",
  identity: "a linked account",
};

function EndDialog(props: { login: LoginDocument; close: () => void; finish: (done: Done) => void }) {
  const act = useTeamAct();
  const { id } = props.login;
  const submit = async () => {
    const done = await act.run(async (): Promise<Done> => {
      await write("/login-sessions/{login}/end", {}, undefined, { login: id });
      return { text: "That login session has ended" };
    });
    if (done) props.finish(done);
  };
  return (
    <Frame
      title="End this login session"
      lead="The browser that has it is logged out at once. This cannot be undone; you can log in there again."
      problem={act.problem}
      submit={() => void submit()}
      verb="End it"
      busy={act.isBusy}
      close={props.close}
      isDanger
    />
  );
}
