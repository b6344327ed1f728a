import { useQuery } from "@tanstack/react-query";
import { FileText, ShieldCheck } from "lucide-react";
import { useEffect, useRef } from "react";
import { read } from "../api/client.ts";
import { asProblem } from "../api/problem.ts";
import { bytes, count } from "../core/format.ts";
import { Command } from "../parts/Command.tsx";
import { Failure, Skeleton } from "../parts/States.tsx";
import { saveFile } from "../parts/save.ts";
import { visible } from "../thread/text.ts";
import { actStore, type Target } from "./acts.ts";
import { Frame, inQuotes } from "./Frame.tsx";
import { removedLines } from "./removed.ts";
import { useNoField } from "./useAct.ts";

const SHOWN_MAX = 100;

/** A thread as one file for another person: what is in it, and what was removed before it was written. */
export function ShareDialog({ target }: { target: Target }) {
  useNoField();
  const { turn, session = null } = target;
  const shared = useQuery({
    queryKey: ["acts", "share", turn.id, session],
    queryFn: ({ signal }) => read("/turns/{revision}/share", { revision: turn.id, session }, signal),
    // What is downloaded is what the report describes.
    staleTime: "static" as const,
    gcTime: 0,
    retry: false,
  });
  const page = shared.data;
  const body = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (page) body.current?.closest("form")?.querySelector<HTMLElement>("button[type=submit]")?.focus();
  }, [page]);
  const download = () => {
    if (!page) return;
    // Not as HTML: a browser that opens it from here would give it the address of this page.
    saveFile(new Blob([page.page], { type: "application/octet-stream" }), page.name);
    actStore.finish("share", {
      done: `Saved ${page.name} with ${count(page.turns, "turn")}`,
      command: page.command,
      undo: null,
      session: null,
      turn: turn.id,
      folder: null,
      paste: null,
      notes: [],
    });
  };
  const lines = page ? removedLines(page.removed) : [];
  return (
    <Frame
      title={`Share ${inQuotes(turn.title)}`}
      lead="One file with the thread up to this turn. It opens in any browser without a network, and Turntree can import it and go on. Your other sessions are not in it."
      command={page?.command}
      submit={download}
      verb="Download"
      busy={false}
      disabled={!page}
    >
      <div ref={body}>
        {page ? (
          <>
            <p className="act-move">
              <FileText aria-hidden="true" />
              <b>{visible(page.name)}</b>
              <small>
                {count(page.turns, "turn")}, {bytes(page.bytes)}
              </small>
            </p>
            <section className="act-body act-removed" aria-labelledby="share-removed">
              <h3 id="share-removed">
                <ShieldCheck aria-hidden="true" />
                {page.removed.secrets
                  ? `${count(page.removed.secrets, "secret")} removed`
                  : "No secrets were found in it"}
              </h3>
              {lines.length > 0 ? (
                <ul>
                  {lines.slice(0, SHOWN_MAX).map((line) => (
                    <li key={line}>{visible(line)}</li>
                  ))}
                  {lines.length > SHOWN_MAX ? (
                    <li>and {count(lines.length - SHOWN_MAX, "more place")}</li>
                  ) : null}
                </ul>
              ) : null}
              <p className="act-hint">
                Keys and passwords are known by how they look. Read the page before you hand it on: names and
                paths are in it.
              </p>
              <div>
                <p className="act-hint">The other person continues with</p>
                <Command line={page.command_to_import} label="that imports it" />
              </div>
            </section>
          </>
        ) : shared.error ? (
          <div className="act-body">
            <Failure error={asProblem(shared.error)} compact />
          </div>
        ) : (
          <div className="act-body">
            <Skeleton rows={4} label="Writing the page" />
          </div>
        )}
      </div>
    </Frame>
  );
}
