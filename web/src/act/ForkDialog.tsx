import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { write } from "../api/client.ts";
import { IS_SHARED } from "../api/place.ts";
import { bytes, count } from "../core/format.ts";
import { useLater } from "../parts/useLater.ts";
import type { Target } from "./acts.ts";
import { digits, spell } from "./command.ts";
import { Field, Frame, inQuotes } from "./Frame.tsx";
import { FOLDER_PAUSE_MS, useAct, useFirstField, useWorkspace } from "./useAct.ts";

/** A new session at a turn, with files of its own or without. */
export function ForkDialog({ target }: { target: Target }) {
  const { turn } = target;
  const workspace = useWorkspace();
  const [withFiles, setWithFiles] = useState(false);
  const [folder, setFolder] = useState("");
  const act = useAct("fork");
  // A server for a team chooses no name.
  const proposed = `${target.session ?? "fork"}-${digits(turn.digest).slice(0, 4)}`;
  const fork = (label: string) =>
    void (IS_SHARED
      ? act.finish("/sessions", { at: turn.id, label: label.trim() || proposed })
      : act.finish("/acts/fork", {
          at: turn.id,
          label: label.trim() || preview.data?.label || null,
          with_files: withFiles,
          folder: withFiles && folder.trim() ? folder.trim() : null,
        }));
  const { field, text, setText } = useFirstField("", fork);
  const asked = useLater(folder.trim() || null, FOLDER_PAUSE_MS);
  const preview = useQuery({
    queryKey: ["acts", "fork", turn.id, asked],
    queryFn: () => write("/acts/fork/plan", { at: turn.id, folder: asked }),
    placeholderData: (before) => before,
    staleTime: 0,
    enabled: !IS_SHARED,
  });
  const place = preview.data?.places[0];
  const name = IS_SHARED ? proposed : preview.data?.label;
  const label = text.trim() || name || "NAME";
  const files = withFiles ? ["--files", ...(folder.trim() ? [folder.trim()] : [])] : [];
  return (
    <Frame
      title={`Fork at ${inQuotes(turn.title)}`}
      lead="A new session begins at this turn. The other one goes on as it is."
      command={spell(workspace, "fork", preview.data?.digest ?? digits(turn.digest), label, ...files)}
      problem={act.problem}
      submit={() => fork(text)}
      verb={withFiles ? "Fork with files" : "Fork"}
      busy={act.busy}
      disabled={withFiles && !place}
    >
      <div className="act-body">
        <Field name="Name" id="fork-name" inputRef={field} value={text} change={setText} placeholder={name} />
        {IS_SHARED ? null : (
          <label className="act-check">
            <input
              type="checkbox"
              checked={withFiles}
              disabled={!withFiles && (!preview.data || preview.data.places.length === 0)}
              onChange={(event) => setWithFiles(event.target.checked)}
            />
            <span>
              With files of its own
              <small>
                {place
                  ? `A copy of ${place.source} as this turn left it: ${count(place.files, "file")}, ${bytes(place.bytes)}.`
                  : (preview.data?.why_no_files ??
                    (preview.isError ? "Its files are not known." : "Looking for its files…"))}
              </small>
            </span>
          </label>
        )}
        {withFiles ? (
          <Field
            name="Folder"
            id="fork-folder"
            value={folder}
            change={setFolder}
            placeholder={place?.place}
            hint={place ? null : preview.data?.why_no_files}
          />
        ) : null}
      </div>
    </Frame>
  );
}
