import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import { bytes, day } from "../../core/format.ts";
import { Dialog } from "../../parts/Dialog.tsx";
import { Failure, Skeleton } from "../../parts/States.tsx";
import { languageOf } from "../code/languages.ts";
import { ChangeCount, Diff } from "../diff/Diff.tsx";
import { changeOfHunks, type Row } from "../diff/rows.ts";
import { visible } from "../text.ts";
import type { BlameLine, PathDiff, Turn } from "../wire.ts";
import { useAbout } from "./useAbout.ts";

const VIEWS = [
  ["change", "What this turn changed"],
  ["content", "The whole file"],
  ["blame", "Who wrote each line"],
] as const;
type View = (typeof VIEWS)[number][0];

/** One file of a turn: its change, its text, and the turn that wrote each line. */
export function FileDialog(props: { turn: Turn; path: string; close: () => void }) {
  const [view, setView] = useState<View>("change");
  const files = useAbout("/turns/{revision}/files", { revision: props.turn.id });
  // Only a change of this turn has a difference; other files are shown as they are.
  const isUnchanged =
    files.isSuccess &&
    (files.data.nearest !== props.turn.id ||
      !files.data.entries.some((entry) => entry.path === props.path && entry.change !== null));
  const diff = useAbout(
    "/turns/{revision}/files/diff",
    { revision: props.turn.id, path: props.path },
    files.isSuccess && !isUnchanged,
  );
  const shown = view === "change" && isUnchanged ? "content" : view;
  return (
    <Dialog title={visible(props.path)} close={props.close} className="file-dialog">
      <div className="file-views" role="group" aria-label="How to look at the file">
        {VIEWS.map(([name, title]) => (
          <button
            key={name}
            type="button"
            className="button quiet"
            aria-pressed={shown === name}
            disabled={name === "change" && isUnchanged}
            onClick={() => setView(name)}
          >
            {title}
          </button>
        ))}
      </div>
      <div className="file-body">
        {shown === "change" ? (
          diff.isError ? (
            <Failure error={diff.error} retry={() => void diff.refetch()} compact />
          ) : diff.data ? (
            <ServerDiff diff={diff.data} />
          ) : (
            <Skeleton />
          )
        ) : shown === "content" ? (
          <Content turn={props.turn.id} path={props.path} />
        ) : (
          <BlameTable turn={props.turn.id} path={props.path} close={props.close} />
        )}
      </div>
    </Dialog>
  );
}

/** A difference of a stored file as the server found it. */
export function ServerDiff({ diff }: { diff: PathDiff }) {
  const change = useMemo(() => changeOfHunks(diff.hunks), [diff]);
  if (diff.is_binary)
    return (
      <p className="note">
        A binary file: {diff.old ? bytes(diff.old.bytes) : "not there"} before,{" "}
        {diff.new ? bytes(diff.new.bytes) : "not there"} after.
      </p>
    );
  return (
    <>
      <p className="file-head">
        <span>{diff.old === null ? "New file" : diff.new === null ? "Deleted" : "Changed"}</span>
        <ChangeCount added={change.added} removed={change.removed} />
      </p>
      <Diff
        change={change}
        language={languageOf(diff.path)}
        label={`Changes to ${visible(diff.path)}`}
        isWhole
      />
      {diff.is_cut ? <p className="note">The rest is too long to show here.</p> : null}
    </>
  );
}

function Content(props: { turn: string; path: string }) {
  const file = useAbout("/turns/{revision}/files/content", { revision: props.turn, path: props.path });
  const change = useMemo(() => {
    const lines = (file.data?.text ?? "").replace(/\n$/, "").split("\n");
    const rows = lines.map(
      (text, index): Row => ({ op: " ", old: index + 1, new: index + 1, text, words: null }),
    );
    return { rows, added: 0, removed: 0 };
  }, [file.data]);
  if (file.isError) return <Failure error={file.error} retry={() => void file.refetch()} compact />;
  if (!file.data) return <Skeleton />;
  if (file.data.is_binary) return <p className="note">A binary file of {bytes(file.data.bytes)}.</p>;
  return (
    <>
      <Diff
        change={change}
        language={languageOf(props.path)}
        label={`The text of ${visible(props.path)}`}
        isWhole
      />
      {file.data.is_cut ? (
        <p className="note">This is only the beginning of {bytes(file.data.bytes)}.</p>
      ) : null}
    </>
  );
}

const BLAME_LINES_MAX = 2_000;

function BlameTable(props: { turn: string; path: string; close: () => void }) {
  const blame = useAbout("/turns/{revision}/blame", { revision: props.turn, path: props.path });
  if (blame.isError) return <Failure error={blame.error} retry={() => void blame.refetch()} compact />;
  if (!blame.data) return <Skeleton label="Following each line back" />;
  const lines = blame.data.lines.slice(0, BLAME_LINES_MAX);
  return (
    <>
      <div className="blame" role="group" aria-label="Lines with the turns that wrote them" tabIndex={0}>
        {lines.map((line, index) => (
          <BlameRow
            key={line.number}
            line={line}
            isNew={lines[index - 1]?.turn !== line.turn || lines[index - 1]?.by !== line.by}
            close={props.close}
          />
        ))}
      </div>
      {blame.data.is_cut || blame.data.lines.length > BLAME_LINES_MAX ? (
        <p className="note">Some lines and older snapshots are left out.</p>
      ) : null}
    </>
  );
}

const ORIGINS: Record<string, string> = {
  outside: "outside of any turn",
  earlier: "before the first snapshot",
  mixed: "one of several turns",
};

function BlameRow({ line, isNew, close }: { line: BlameLine; isNew: boolean; close: () => void }) {
  return (
    <div className={isNew ? "blame-line new" : "blame-line"}>
      <span className="blame-by clip">
        {!isNew ? null : line.turn ? (
          <Link to="/t/$turn" params={{ turn: line.turn }} onClick={close} title={visible(line.title ?? "")}>
            {visible(line.title || line.by)}
          </Link>
        ) : (
          <span className="faint">{ORIGINS[line.by] ?? visible(line.by)}</span>
        )}
      </span>
      <span className="blame-at">{isNew && line.at ? day(Date.parse(line.at), Date.now()) : ""}</span>
      <span className="number">{line.number}</span>
      <code>{visible(line.text.slice(0, 2_000))}</code>
    </div>
  );
}
