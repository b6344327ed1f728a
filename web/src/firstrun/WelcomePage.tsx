import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { FolderSearch } from "lucide-react";
import { useMemo, useState } from "react";
import { read, write } from "../api/client.ts";
import { useForest } from "../api/forest.ts";
import { useMe } from "../api/me.ts";
import { useLive } from "../api/stream.ts";
import { CanopyField } from "../canopy/CanopyField.tsx";
import "../canopy/canopy.css";
import { toneOf } from "../core/agents.ts";
import type { Forest } from "../core/forest.ts";
import { bytes, count, figure } from "../core/format.ts";
import type { ImportJob } from "../core/live.ts";
import { Button } from "../parts/Button.tsx";
import { Chip, Dot } from "../parts/Chip.tsx";
import { Command } from "../parts/Command.tsx";
import { Page } from "../parts/Page.tsx";
import { Empty, Failure, Skeleton } from "../parts/States.tsx";
import { importable, isRunning, jobsByTool, progressOf, type Source } from "./choice.ts";
import "./welcome.css";

export default function WelcomePage() {
  const found = useQuery({
    queryKey: ["sources"],
    queryFn: ({ signal }) => read("/sources", {}, signal),
    staleTime: 0,
  });
  if (found.error)
    return (
      <Page title="Welcome">
        <Failure error={found.error} retry={() => void found.refetch()} />
      </Page>
    );
  if (!found.data)
    return (
      <Page title="Welcome">
        <Skeleton label="Looking where tools keep their sessions" />
      </Page>
    );
  const here = found.data.tools.filter((one) => one.state !== "absent");
  return here.length ? (
    <Found sources={here} demo={found.data.demo} />
  ) : (
    <Nothing sources={found.data.tools} demo={found.data.demo} />
  );
}

function Found({ sources, demo }: { sources: Source[]; demo: boolean }) {
  const live = useLive();
  const { forest } = useForest();
  const jobs = useMemo(() => jobsByTool(live.jobs.values()), [live.jobs]);
  const offered = importable(sources);
  const [left, setLeft] = useState<ReadonlySet<string>>(new Set());
  const chosen = offered.filter((tool) => !left.has(tool));
  const start = useMutation({ mutationFn: (tools: string[]) => write("/imports", { tools }) });
  const running = [...jobs.values()].filter(isRunning);
  const isBusy = running.length > 0 || start.isPending;
  const ended = [...jobs.values()].filter((job) => job.state === "finished");
  const isDone = !isBusy && ended.length > 0;
  const toggle = (tool: string) =>
    setLeft((before) => {
      const after = new Set(before);
      if (!after.delete(tool)) after.add(tool);
      return after;
    });
  return (
    <Page title="Welcome" quiet className="welcome">
      <div className="welcome-head">
        <p className="display">{headline(sources, isBusy, isDone ? forest : null)}</p>
        <p className="welcome-lead">
          {isDone
            ? "New turns of these tools appear by themselves while this page is open."
            : "One click brings them here as one tree. The files of your tools are only read."}
        </p>
      </div>
      <ul className="welcome-tools" aria-label="Found on this machine">
        {sources.map((source) => (
          <Tool
            key={source.tool}
            source={source}
            job={jobs.get(source.tool)}
            isChosen={chosen.includes(source.tool)}
            toggle={offered.includes(source.tool) && !isBusy ? () => toggle(source.tool) : null}
          />
        ))}
      </ul>
      <div className="welcome-acts">
        {isDone || (!isBusy && offered.length === 0) ? (
          <>
            <Link to="/" className="button primary">
              Open the canopy
            </Link>
            <Link to="/search" className="button">
              Search for something you remember
            </Link>
          </>
        ) : (
          <Button
            kind="primary"
            disabled={isBusy || chosen.length === 0}
            onClick={() => start.mutate(chosen)}
            aria-describedby="welcome-stays"
          >
            {isBusy
              ? `Importing, ${Math.floor(progressOf(running) * 100)} %`
              : chosen.length === sources.length
                ? "Import everything"
                : `Import from ${count(chosen.length, "tool")}`}
          </Button>
        )}
        {demo && !isBusy && !isDone ? <SampleButton /> : null}
      </div>
      {start.error ? <Failure error={start.error} compact /> : null}
      <Growth />
      <Stays />
    </Page>
  );
}

function headline(sources: Source[], isBusy: boolean, forest: Forest | null): string {
  if (forest) return `${count(forest.turns, "turn")} in ${count(forest.sessions.length, "session")} are here`;
  if (isBusy) return "Your history is coming in";
  const sessions = sources.reduce((sum, one) => sum + one.sessions, 0);
  const whose = sources.length === 1 ? sources[0]!.name : count(sources.length, "tool");
  return `${count(sessions, "session")} of ${whose} ${sessions === 1 ? "is" : "are"} on this machine`;
}

function Tool(props: {
  source: Source;
  job: ImportJob | undefined;
  isChosen: boolean;
  toggle: (() => void) | null;
}) {
  const { source, job, toggle } = props;
  return (
    <li className={`welcome-tool tone-${toneOf(source.tool)}`}>
      <label>
        <input
          type="checkbox"
          checked={props.isChosen || isRunning(job) || source.state === "imported"}
          disabled={!toggle}
          onChange={toggle ?? undefined}
          aria-label={`Import from ${source.name}`}
        />
        <span className="welcome-name">
          <Dot />
          {source.name}
        </span>
        <span className="welcome-sizes">
          {count(source.sessions, "session")}
          {source.turns_estimate ? ` · about ${count(source.turns_estimate, "turn")}` : ""} ·{" "}
          {bytes(source.bytes)}
        </span>
        <span className="welcome-state">{stateOf(source, job)}</span>
      </label>
      {source.folder ? <code className="clip">{source.folder}</code> : null}
      {isRunning(job) ? (
        <progress max={1} value={progressOf([job!])} aria-label={`Progress of ${source.name}`} />
      ) : null}
      {job?.error ? <p className="welcome-error">{job.error}</p> : null}
    </li>
  );
}

function stateOf(source: Source, job: ImportJob | undefined) {
  if (job?.state === "running") return <span role="status">{figure(job.turns)} turns</span>;
  if (job?.state === "waiting") return <span className="faint">waiting</span>;
  if (job?.state === "failed") return <Chip kind="bad">failed</Chip>;
  if (job?.state === "finished")
    return <Chip kind="ok">{job.turns ? `${count(job.turns, "turn")} here` : "nothing new"}</Chip>;
  if (source.state === "imported") return <Chip kind="ok">imported</Chip>;
  if (source.state === "partly") return <Chip>{figure(source.sessions - source.imported)} new</Chip>;
  return null;
}

/** The picture, as it grows. */
function Growth() {
  const { forest, activity } = useForest();
  if (!forest || forest.turns === 0) return null;
  return (
    <section className="welcome-growth" aria-label="Your history so far">
      <CanopyField forest={forest} activity={activity} legend={<Sums turns={forest.turns} />} />
    </section>
  );
}

function Sums({ turns }: { turns: number }) {
  return <span className="faint">{count(turns, "turn")} so far</span>;
}

function SampleButton() {
  const show = useMutation({
    mutationFn: () => write("/demo", {}),
    onSuccess: () => location.assign("/"),
  });
  return (
    <>
      <Button onClick={() => show.mutate()} disabled={show.isPending}>
        {show.isPending ? "Writing the sample data" : "Look around in sample data"}
      </Button>
      {show.error ? <Failure error={show.error} compact /> : null}
    </>
  );
}

/** Said plainly, because people are right to ask. */
function Stays() {
  const me = useMe();
  return (
    <section className="welcome-stays" id="welcome-stays">
      <h2>Everything stays on this machine</h2>
      <ul>
        <li>
          Your sessions are kept in a database{me ? <code>{me.home}</code> : null} that only you can read.
        </li>
        <li>What looks like a secret key is taken out before anything is kept.</li>
        <li>This page talks to your own machine only. There is no account, and nothing is sent anywhere.</li>
        <li>
          Remove everything again with <Command line="turntree uninstall" />
        </li>
      </ul>
    </section>
  );
}

function Nothing({ sources, demo }: { sources: Source[]; demo: boolean }) {
  return (
    <Page title="Welcome" quiet className="welcome">
      <Empty
        icon={<FolderSearch aria-hidden="true" />}
        title="No sessions in the usual folders"
        action={
          <>
            {demo ? <SampleButton /> : null}
            <Command line="turntree import PATH" />
          </>
        }
      >
        Try the page with sample data, or import an export or a copied folder. What your tools write from now
        on can be imported here.
      </Empty>
      <section className="welcome-looked">
        <h2>Folders that were searched</h2>
        <ul>
          {sources.map((source) => (
            <li key={source.tool}>
              {source.name} <code>{source.folder}</code>
            </li>
          ))}
        </ul>
      </section>
    </Page>
  );
}
