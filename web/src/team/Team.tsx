import { useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Undo2, X } from "lucide-react";
import { type ReactNode, useRef, useState } from "react";
import { lock } from "../api/lock.ts";
import { mayDo, useMe } from "../api/me.ts";
import { IS_SHARED } from "../api/place.ts";
import { asProblem, type Problem } from "../api/problem.ts";
import { count } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Command } from "../parts/Command.tsx";
import { Page } from "../parts/Page.tsx";
import { Empty } from "../parts/States.tsx";
import "../act/act.css";
import "./team.css";

const PLACES = [
  { to: "/members", name: "Members" },
  { to: "/invitations", name: "Invitations" },
  { to: "/keys", name: "Keys" },
  { to: "/account", name: "Your account" },
] as const;

/** What was done on one of these pages, and how to take it back; null cannot be. */
export interface Done {
  text: string;
  command?: string;
  undo?: { verb: string; run: () => Promise<Done> };
}

/** The frame of the pages about who gets in: the way between them, and what was done last. */
export function TeamPage(props: {
  title: string;
  aside?: ReactNode;
  done: Done | null;
  tell: (done: Done | null) => void;
  children: ReactNode;
}) {
  const isAdmin = mayDo(useMe(), "member.manage");
  if (!IS_SHARED)
    return (
      <Page title={props.title} quiet>
        <Empty title="This page is for teams" action={<Command line="turntree serve" />}>
          On this machine you work alone: nobody else gets in, and no key is needed. A server for a team has
          members, invitations and keys.
        </Empty>
      </Page>
    );
  return (
    <Page title={props.title} className="team" aside={props.aside}>
      <nav className="team-places" aria-label="Who gets in">
        {PLACES.filter((place) => isAdmin || place.to !== "/invitations").map((place) => (
          <Link key={place.to} to={place.to}>
            {place.name}
          </Link>
        ))}
      </nav>
      {props.children}
      {props.done ? <DoneBar done={props.done} tell={props.tell} /> : null}
    </Page>
  );
}

/** What was done last, with the way back. */
export function DoneBar({ done, tell }: { done: Done; tell: (done: Done | null) => void }) {
  const act = useTeamAct();
  const undo = async () => {
    const after = done.undo && (await act.run(done.undo.run));
    if (after) tell(after);
  };
  return (
    <section className="undo-bar" aria-label="What was done">
      <div className="undo-said" role="status">
        <p>{done.text}.</p>
      </div>
      {done.command ? <Command line={done.command} label="that does the same" /> : null}
      <div className="act-buttons">
        {done.undo ? (
          <Button icon={<Undo2 aria-hidden="true" />} onClick={() => void undo()} aria-busy={act.isBusy}>
            {done.undo.verb}
          </Button>
        ) : null}
        <Button kind="quiet" onClick={() => tell(null)} aria-label="Close this message">
          <X aria-hidden="true" />
        </Button>
      </div>
      {act.problem ? (
        <p className="act-trouble" role="alert">
          {sentence(act.problem)}
        </p>
      ) : null}
    </section>
  );
}

/** For how long something is valid, of a few choices. */
export function Days(props: {
  id: string;
  name: string;
  days: readonly number[];
  value: number;
  change: (days: number) => void;
}) {
  return (
    <div className="act-field">
      <label htmlFor={props.id}>{props.name}</label>
      <select
        id={props.id}
        value={props.value}
        onChange={(event) => props.change(Number(event.target.value))}
      >
        {props.days.map((days) => (
          <option key={days} value={days}>
            {count(days, "day")}
          </option>
        ))}
      </select>
    </div>
  );
}

/** Does something once, and reads everything again afterwards. */
export function useTeamAct() {
  const client = useQueryClient();
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const running = useRef(false);

  async function run<Result>(act: () => Promise<Result>): Promise<Result | null> {
    if (running.current) return null;
    running.current = true;
    setBusy(true);
    setProblem(null);
    try {
      const result = await act();
      await client.invalidateQueries();
      return result;
    } catch (error) {
      const found = asProblem(error);
      if (found.isLocked) lock.close();
      setProblem(found);
      return null;
    } finally {
      running.current = false;
      setBusy(false);
    }
  }

  return { run, isBusy, problem, forget: () => setProblem(null) };
}

/** `human:ana` is called `ana`. */
export function bare(principal: string): string {
  return principal.replace(/^human:/, "");
}

function sentence(problem: Problem): string {
  const said = problem.detail || problem.message;
  return `${said.charAt(0).toUpperCase()}${said.slice(1)}.`;
}
