/** The values of the API that the reader shows, by short names. */

export interface Part {
  kind: "text" | "reasoning" | "tool_use" | "tool_result" | "image" | "other";
  text: string | null;
  is_cut: boolean;
  is_injected: boolean;
  call_id: string | null;
  tool: string | null;
  args: unknown;
  status: string | null;
  output: string | null;
  about: string | null;
  spawned: string | null;
  media_type: string | null;
  url: string | null;
}

export interface Message {
  number: number;
  role: string | "erased";
  source: string | null;
  at: string | null;
  parts: Part[];
  erased: boolean;
}

export interface TokenUse {
  input: number;
  cached: number;
  cache_write: number;
  output: number;
  reasoning: number;
  total: number;
}

export interface FileUse {
  path: string;
  use: "read" | "written" | "created" | "deleted";
}

export interface Compaction {
  summarized_through: string;
  first_kept: string | null;
  turns_summarized: number;
  trigger: string;
  tokens_before: number | null;
  tokens_after: number | null;
}

export interface BranchLink {
  turn: string;
  label: string | null;
  title: string;
}

export interface Turn {
  id: string;
  digest: string;
  parent: string | null;
  depth: number;
  kind: "normal" | "compaction";
  outcome: "completed" | "failed" | "canceled" | "interrupted";
  reason: string | null;
  by: string;
  agent: string;
  model: string | null;
  provider: string | null;
  started_at: string;
  sealed_at: string;
  title: string;
  query: Message[];
  reply: Message[];
  tokens: number | null;
  usage: TokenUse | null;
  cost: number | null;
  files: FileUse[];
  has_snapshot: boolean;
  compaction: Compaction | null;
  sessions: string[];
  tags: string[];
  branches: BranchLink[];
  is_cut: boolean;
}

export interface ThreadPage {
  head: string;
  session: string | null;
  turns_total: number;
  turns: Turn[];
  older: number | null;
  newer: number | null;
}

export interface ToolCount {
  tool: string;
  calls: number;
}

export interface CompareSide {
  revision: string;
  label: string | null;
  turns: Turn[];
  turns_total: number;
  tokens: number;
  cost: number | null;
  unknown_cost: boolean;
  minutes: number;
  tools: ToolCount[];
  files_changed: number;
}

export interface ComparePath {
  path: string;
  left: "added" | "changed" | "removed" | null;
  right: "added" | "changed" | "removed" | null;
}

export interface Comparison {
  base: Turn | null;
  left: CompareSide;
  right: CompareSide;
  files: ComparePath[];
}

export interface SpineNode {
  turn: string;
  depth: number;
  title: string;
  at_ms: number;
  kind: string;
  outcome: string;
}

export interface SpineBranch {
  from_turn: string;
  from_depth: number;
  turn: string;
  label: string | null;
  title: string;
  turns: number;
  agent: string;
  last_ms: number;
}

export interface Spine {
  head: string;
  turns: number;
  nodes: SpineNode[];
  branches: SpineBranch[];
}

export interface ContextMessage {
  role: string;
  text: string;
  is_own: boolean;
}

export interface ContextTool {
  name: string;
  description: string;
}

export interface ContextCall {
  number: number;
  system: string[];
  tools: ContextTool[];
  thread_turns: number;
  turns_left_out: number;
  messages: ContextMessage[];
  estimated_tokens: number;
  reported_tokens: number | null;
  cached_tokens: number | null;
  digest: string | null;
  is_same: boolean | null;
}

export interface ContextTurn {
  turn: string;
  depth: number;
  title: string;
  kind: string;
  tokens: number | null;
}

export interface Context {
  turn: string;
  model: string | null;
  absence: string | null;
  is_erased: boolean;
  calls: ContextCall[];
  thread: ContextTurn[];
  thread_total: number;
  compaction: Compaction | null;
  manifest: string | null;
}

export interface PermissionUse {
  at: string;
  action: string;
  principal: string;
  decision: "used" | "denied";
  why: string;
}

export interface PermissionList {
  records: PermissionUse[];
}

export interface CauseStep {
  kind: string;
  depth: number;
  turn: string | null;
  session: string | null;
  text: string;
  at: string | null;
}

export interface CauseList {
  steps: CauseStep[];
  is_cut: boolean;
}

export interface RawRecordText {
  source: string;
  text: string;
  bytes: number;
}

export interface RawTurn {
  turn: string;
  digest: string;
  parent_digest: string | null;
  canonical: string;
  bytes: number;
  is_cut: boolean;
  verified: boolean;
  findings: string[];
  records: RawRecordText[];
}

export interface FileListEntry {
  path: string;
  change: "added" | "changed" | "removed" | null;
  bytes: number;
  mode: number;
}

export interface FileList {
  snapshot: string | null;
  nearest: string | null;
  entries: FileListEntry[];
  is_cut: boolean;
  folder: string | null;
}

export interface DiffLine {
  op: " " | "+" | "-";
  text: string;
}

export interface DiffHunk {
  old_start: number;
  new_start: number;
  lines: DiffLine[];
}

export interface DiffSide {
  path: string;
  bytes: number;
  mode: number;
}

export interface PathDiff {
  path: string;
  old: DiffSide | null;
  new: DiffSide | null;
  hunks: DiffHunk[];
  is_binary: boolean;
  is_cut: boolean;
}

export interface FileContent {
  path: string;
  text: string | null;
  bytes: number;
  is_binary: boolean;
  is_cut: boolean;
}

export interface BlameLine {
  number: number;
  text: string;
  turn: string | null;
  title: string | null;
  by: string;
  at: string | null;
}

export interface Blame {
  path: string;
  lines: BlameLine[];
  is_cut: boolean;
}
