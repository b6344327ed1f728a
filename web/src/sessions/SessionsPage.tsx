import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { ChevronRight, GitBranch } from "lucide-react";
import { useEffect, useMemo, useRef, useState } from "react";
import { useForest } from "../api/forest.ts";
import { IS_SHARED } from "../api/place.ts";
import { sessionPages } from "../api/sessions.ts";
import type { SessionSummary } from "../api/types.ts";
import { agentName, toneOf } from "../core/agents.ts";
import { type Family, families } from "../core/families.ts";
import { count, dollars, figure } from "../core/format.ts";
import { Button } from "../parts/Button.tsx";
import { Chip, Dot } from "../parts/Chip.tsx";
import { Command } from "../parts/Command.tsx";
import { Sparkline, Time, Tokens } from "../parts/Figures.tsx";
import { Page } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { useRowKeys } from "../parts/useRowKeys.ts";
import { useTyped } from "../parts/useTyped.ts";
import type { Address } from "../shell/address.ts";
import { Begin } from "../shell/Begin.tsx";
import "./sessions.css";

/** Every session, the one that worked last first; subagents are folded under the session that spawned them. */
export default function SessionsPage() {
  const address: Address = useSearch({ strict: false });
  const navigate = useNavigate();
  const { forest } = useForest();
  const list = useRef<HTMLUListElement>(null);
  const isArchived = address.archived === "yes";
  const answer = useInfiniteQuery(
    sessionPages({
      project: address.project,
      agent: address.agent,
      q: address.q,
      archived: isArchived || undefined,
    }),
  );
  const change = (part: Address) =>
    void navigate({ to: "/sessions", search: (before: Address) => ({ ...before, ...part }), replace: true });
  const [words, setWords] = useTyped(address.q ?? "", (q) => change({ q: q || undefined }));
  useRowKeys(list);

  const sessions = useMemo(() => answer.data?.pages.flatMap((page) => page.sessions) ?? [], [answer.data]);
  const folded = useMemo(() => families(sessions), [sessions]);
  const isFiltered = Boolean(address.q || address.project || address.agent || isArchived);
  return (
    <Page
      title="Sessions"
      className="sessions"
      aside={
        <form className="filters" aria-label="Filters" onSubmit={(event) => event.preventDefault()}>
          <input
            type="search"
            aria-label="Title or label"
            placeholder="Title or label"
            value={words}
            onChange={(event) => setWords(event.target.value)}
          />
          <Choice
            name="Project"
            all="All projects"
            value={address.project}
            options={forest?.projects ?? []}
            choose={(project) => change({ project })}
          />
          <Choice
            name="Agent"
            all="All agents"
            value={address.agent}
            options={forest?.agents ?? []}
            nameOf={agentName}
            choose={(agent) => change({ agent })}
          />
          <Button
            aria-pressed={isArchived}
            onClick={() => change({ archived: isArchived ? undefined : "yes" })}
          >
            Archived
          </Button>
        </form>
      }
    >
      {answer.isPending ? <Skeleton rows={12} label="Reading the sessions" /> : null}
      {answer.isError ? <Failure error={answer.error} retry={() => void answer.refetch()} /> : null}
      {answer.isSuccess && sessions.length === 0 ? (
        <Nothing isFiltered={isFiltered} clear={() => setWords("")} />
      ) : null}
      {folded.length > 0 ? (
        <>
          <div className="session-heads" aria-hidden="true">
            <span>Session</span>
            <span>Agent</span>
            <span>14 days</span>
            <span className="end">Turns</span>
            <span className="end">Tokens</span>
            <span className="end">Cost</span>
            <span className="end">Last</span>
          </div>
          <ul className="session-list" ref={list}>
            {folded.map((family) => (
              <FamilyRows key={family.session.id} family={family} />
            ))}
          </ul>
          {answer.hasNextPage ? (
            <More isBusy={answer.isFetchingNextPage} more={() => void answer.fetchNextPage()} />
          ) : null}
          <p className="sessions-command">
            <Command line="turntree session list" />
          </p>
        </>
      ) : null}
    </Page>
  );
}

function FamilyRows(props: { family: Family<SessionSummary> }) {
  const { session, subagents } = props.family;
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <SessionRow session={session} />
      {subagents.length > 0 ? (
        <>
          <button type="button" className="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            <ChevronRight aria-hidden="true" />
            {count(subagents.length, "subagent")}
            <span className="visually-hidden"> of {session.title || session.label}</span>
          </button>
          {isOpen ? (
            <ul className="subagents">
              {subagents.map((subagent) => (
                <li key={subagent.id}>
                  <SessionRow session={subagent} />
                </li>
              ))}
            </ul>
          ) : null}
        </>
      ) : null}
    </li>
  );
}

function SessionRow(props: { session: SessionSummary }) {
  const { session } = props;
  return (
    <Link
      to="/s/$label"
      params={{ label: session.label }}
      className={`session tone-${toneOf(session.agent)}`}
      data-row=""
    >
      <span className="session-name">
        <span className="session-title clip">{session.title || session.label}</span>
        <span className="session-label clip">
          {session.project ? <b>{session.project}</b> : null}
          <span className="mono">{session.label}</span>
          {session.archived ? <Chip>archived</Chip> : null}
          {session.tags.map((tag) => (
            <Chip key={tag} kind="accent">
              {tag}
            </Chip>
          ))}
        </span>
      </span>
      <span className="session-agent clip">
        <Dot />
        <span className="clip">
          {agentName(session.agent)}
          {session.model ? <small className="clip">{session.model}</small> : null}
        </span>
      </span>
      <span className="session-days">
        <Sparkline values={session.activity} label={activityOf(session.activity)} />
      </span>
      <span className="end">
        {figure(session.turns)}
        <i className="unit"> turns</i>
      </span>
      <span className="end">
        <Tokens value={session.tokens} bare />
        <i className="unit"> tokens</i>
      </span>
      <span
        className={session.cost === null ? "end faint" : "end"}
        title={session.cost === null ? "No list price is known" : undefined}
      >
        {dollars(session.cost)}
      </span>
      <span className="end faint">
        <Time at={session.last_at} />
      </span>
    </Link>
  );
}

function activityOf(activity: readonly number[]): string {
  const turns = activity.reduce((sum, value) => sum + value, 0);
  return turns === 0 ? "No turns in 14 days" : `${count(turns, "turn")} in 14 days`;
}

function Choice(props: {
  name: string;
  all: string;
  value: string | undefined;
  options: readonly string[];
  nameOf?: (option: string) => string;
  choose: (option: string | undefined) => void;
}) {
  const options = [...new Set(props.options)].filter(Boolean).sort((a, b) => a.localeCompare(b));
  if (options.length < 2 && !props.value) return null;
  return (
    <select
      aria-label={props.name}
      value={props.value ?? ""}
      onChange={(event) => props.choose(event.target.value || undefined)}
    >
      <option value="">{props.all}</option>
      {options.map((option) => (
        <option key={option} value={option}>
          {props.nameOf?.(option) ?? option}
        </option>
      ))}
    </select>
  );
}

function Nothing(props: { isFiltered: boolean; clear: () => void }) {
  if (props.isFiltered) {
    return (
      <Empty
        title="No session passes these filters"
        icon={<GitBranch aria-hidden="true" />}
        action={
          <Link to="/sessions" search={{}} className="button" onClick={props.clear}>
            Clear the filters
          </Link>
        }
      />
    );
  }
  return (
    <Empty title="No sessions yet" icon={<GitBranch aria-hidden="true" />} action={<Begin />}>
      {IS_SHARED
        ? "A message begins one. Everyone in this workspace sees it, unless it is private."
        : "Turntree reads the sessions of your coding agents. They stay where they are."}
    </Empty>
  );
}

/** Reads the next page when it comes into view; a button for those who use no pointer. */
function More(props: { isBusy: boolean; more: () => void }) {
  const element = useRef<HTMLDivElement>(null);
  const more = useRef(props.more);
  more.current = props.more;
  useEffect(() => {
    if (props.isBusy) return;
    const observer = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) more.current();
      },
      { rootMargin: "600px" },
    );
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, [props.isBusy]);
  return (
    <div ref={element} className="sessions-more">
      <Button disabled={props.isBusy} onClick={props.more}>
        {props.isBusy ? "Reading more" : "Show more"}
      </Button>
    </div>
  );
}
