import { IS_SHARED } from "../api/place.ts";
import type { Act } from "./acts.ts";
import { ForkDialog } from "./ForkDialog.tsx";
import { MoveBackDialog } from "./MoveBackDialog.tsx";
import { RevertDialog } from "./RevertDialog.tsx";
import { RewindDialog } from "./RewindDialog.tsx";
import { ShareDialog } from "./ShareDialog.tsx";
import {
  ArchiveDialog,
  HandoffDialog,
  RenameDialog,
  TagDialog,
  UndoDialog,
  WorktreeDialog,
} from "./SmallDialogs.tsx";
import "./act.css";

/** The dialog of an act. */
export default function ActDialog({ act }: { act: Act }) {
  switch (act.kind) {
    case "fork":
      return <ForkDialog target={act.target} />;
    case "rewind":
      return IS_SHARED ? (
        <MoveBackDialog target={act.target} before={act.before ?? false} />
      ) : (
        <RewindDialog target={act.target} before={act.before ?? false} />
      );
    case "revert":
      return <RevertDialog target={act.target} />;
    case "share":
      return <ShareDialog target={act.target} />;
    case "worktree":
      return <WorktreeDialog target={act.target} />;
    case "tag":
      return <TagDialog target={act.target} />;
    case "handoff":
      return <HandoffDialog target={act.target} tool={act.tool ?? "claude-code"} />;
    case "rename":
      return <RenameDialog session={act.session} head={act.head ?? null} />;
    case "archive":
      return <ArchiveDialog session={act.session} head={act.head ?? null} />;
    case "undo":
      return <UndoDialog session={act.session} head={act.head} />;
  }
}
