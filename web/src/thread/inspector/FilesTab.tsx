import { useNavigate } from "@tanstack/react-router";
import { FileMinus2, FilePlus2, FileText, Pencil } from "lucide-react";
import { useMemo } from "react";
import { count } from "../../core/format.ts";
import { Failure, Skeleton } from "../../parts/States.tsx";
import { visible } from "../text.ts";
import type { FileList, Turn } from "../wire.ts";
import { useAbout } from "./useAbout.ts";

interface FileRow {
  path: string;
  /** What the turn did, in a word. */
  word: string;
  change: "added" | "changed" | "removed" | null;
  isStored: boolean;
}

const UNCHANGED_MAX = 40;

/** What the turn did to files, and the files as it left them. */
export function FilesTab({ turn }: { turn: Turn }) {
  const files = useAbout("/turns/{revision}/files", { revision: turn.id });
  const rows = useMemo(() => rowsOf(turn, files.data), [turn, files.data]);
  if (files.isPending) return <Skeleton rows={4} label="Reading the files" />;
  if (files.isError) return <Failure error={files.error} retry={() => void files.refetch()} compact />;
  const { snapshot, nearest, is_cut: isCut } = files.data;
  const touched = rows.filter((row) => row.word !== "");
  const quiet = rows.filter((row) => row.word === "");
  return (
    <>
      <h3>
        {touched.length > 0 ? "Used in this turn" : "No files used in this turn"}
        <span>{touched.length > 0 ? count(touched.length, "file") : ""}</span>
      </h3>
      <FileRows rows={touched} />
      {snapshot === null ? (
        <p className="note">
          No snapshot of the files was taken up to here, so their contents are not known. Turntree takes one
          per turn while its hooks are installed.
        </p>
      ) : quiet.length > 0 ? (
        <>
          <h3>
            {nearest === turn.id ? "Left unchanged" : "Unchanged since an earlier turn"}
            <span>{isCut ? `more than ${quiet.length}` : count(quiet.length, "file")}</span>
          </h3>
          <FileRows rows={quiet.slice(0, UNCHANGED_MAX)} />
          {quiet.length > UNCHANGED_MAX ? (
            <p className="note">and {count(quiet.length - UNCHANGED_MAX, "more file")}</p>
          ) : null}
        </>
      ) : null}
    </>
  );
}

function rowsOf(turn: Turn, files: FileList | undefined): FileRow[] {
  const rows = new Map<string, FileRow>();
  const isOwn = files?.nearest === turn.id;
  const folder = files?.folder ? `${files.folder.replace(/\/$/, "")}/` : null;
  for (const entry of files?.entries ?? []) {
    const change = isOwn ? entry.change : null;
    rows.set(entry.path, { path: entry.path, word: change ?? "", change, isStored: true });
  }
  for (const { path, use } of turn.files) {
    const name = folder && path.startsWith(folder) ? path.slice(folder.length) : path;
    const row = rows.get(name) ?? { path: name, word: "", change: null, isStored: false };
    if (row.word === "") row.word = use;
    rows.set(name, row);
  }
  const rank = (row: FileRow) => (row.change ? 0 : row.word === "" ? 3 : row.word === "read" ? 2 : 1);
  return [...rows.values()].sort((a, b) => rank(a) - rank(b) || a.path.localeCompare(b.path));
}

const ICONS = {
  added: FilePlus2,
  created: FilePlus2,
  changed: Pencil,
  written: Pencil,
  removed: FileMinus2,
  deleted: FileMinus2,
} as const;

function FileRows({ rows }: { rows: FileRow[] }) {
  const navigate = useNavigate();
  const open = (path: string) =>
    void navigate({ to: ".", search: (before: Record<string, unknown>) => ({ ...before, path }) });
  return (
    <ul className="file-rows">
      {rows.map((row) => {
        const Icon = ICONS[row.word as keyof typeof ICONS] ?? FileText;
        const words = (
          <>
            <Icon aria-hidden="true" />
            <Path path={row.path} />
            <span className={`use ${row.change ?? ""}`}>{row.word}</span>
          </>
        );
        return (
          <li key={row.path}>
            {row.isStored ? (
              <button type="button" onClick={() => open(row.path)}>
                {words}
              </button>
            ) : (
              <span className="file-row" title="Its contents were not stored">
                {words}
              </span>
            )}
          </li>
        );
      })}
    </ul>
  );
}

/** A path that loses its beginning, not its end, where there is no room. */
export function Path({ path }: { path: string }) {
  const text = visible(path);
  const at = text.lastIndexOf("/") + 1;
  return (
    <span className="path" title={text}>
      <span className="clip">{text.slice(0, at)}</span>
      <span>{text.slice(at)}</span>
    </span>
  );
}
