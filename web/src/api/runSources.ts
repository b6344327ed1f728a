/** Connections to runs in progress: one for each run, however many tabs follow it. */

import { type FollowedRun, followed, learn, type RunNews } from "../core/runNews.ts";

const WAIT_MS = 400;
const WAIT_MS_MAX = 8_000;
const GATHER_MS = 40;
/** A browser opens six connections to a server; one is the stream, and two are for questions. */
const OPEN_MAX = 3;
const EVENTS = ["step", "chunk", "end", "problem"] as const;

export type Told =
  /** All that is known of a run, for one who begins to follow it. */
  | { run: string; state: FollowedRun }
  /** What happened since. */
  | { run: string; news: RunNews[] };

interface Source {
  address: string;
  state: FollowedRun;
  followers: Set<object>;
  close: (() => void) | null;
}

export class RunSources {
  private sources = new Map<string, Source>();
  private readonly tell: (told: Told, followers: ReadonlySet<object>) => void;

  constructor(tell: (told: Told, followers: ReadonlySet<object>) => void) {
    this.tell = tell;
  }

  /** Tells a follower what is known of a run, and from then on what happens. */
  follow(run: string, address: string, follower: object): void {
    let source = this.sources.get(run);
    if (!source) {
      source = { address, state: followed(run), followers: new Set(), close: null };
      this.sources.set(run, source);
    }
    source.followers.add(follower);
    this.tell({ run, state: source.state }, new Set([follower]));
    this.openNext();
  }

  leave(run: string, follower: object): void {
    const source = this.sources.get(run);
    if (!source) return;
    source.followers.delete(follower);
    if (source.followers.size > 0) return;
    source.close?.();
    this.sources.delete(run);
    this.openNext();
  }

  /** A follower that is gone follows nothing. */
  forget(follower: object): void {
    for (const run of [...this.sources.keys()]) this.leave(run, follower);
  }

  private openNext(): void {
    let open = 0;
    for (const source of this.sources.values()) if (source.close && !isOver(source.state)) open++;
    for (const [run, source] of this.sources) {
      if (open >= OPEN_MAX) return;
      if (source.close || isOver(source.state)) continue;
      source.close = openRun(source.address, (news) => {
        source.state = news.reduce(learn, source.state);
        this.tell({ run, news }, source.followers);
        if (!isOver(source.state)) return;
        source.close?.();
        this.openNext();
      });
      open++;
    }
  }
}

function isOver(state: FollowedRun): boolean {
  return state.end !== null || state.problem !== null;
}

/** Follows one run from its beginning, and after every cut from where it was; the answer ends it. */
function openRun(address: string, tell: (news: RunNews[]) => void): () => void {
  let source: EventSource | null = null;
  let position = "";
  let wait = WAIT_MS;
  let isClosed = false;
  let again: ReturnType<typeof setTimeout> | undefined;
  let gathering: ReturnType<typeof setTimeout> | undefined;
  let gathered: RunNews[] = [];

  const pass = () => {
    clearTimeout(gathering);
    gathering = undefined;
    const news = gathered;
    gathered = [];
    if (news.length && !isClosed) tell(news);
  };
  const open = () => {
    source = new EventSource(position ? `${address}?after=${encodeURIComponent(position)}` : address);
    for (const event of EVENTS) {
      source.addEventListener(event, (message: MessageEvent<string>) => {
        wait = WAIT_MS;
        if (message.lastEventId) position = message.lastEventId;
        gathered.push({ event, id: message.lastEventId, data: JSON.parse(message.data) } as RunNews);
        if (event === "end" || event === "problem") pass();
        else gathering ??= setTimeout(pass, GATHER_MS);
      });
    }
    // The browser's own next try would ask for the beginning again if the server had been away.
    source.onerror = () => {
      source?.close();
      pass();
      if (isClosed) return;
      again = setTimeout(open, wait);
      wait = Math.min(wait * 2, WAIT_MS_MAX);
    };
  };
  open();
  return () => {
    isClosed = true;
    clearTimeout(again);
    clearTimeout(gathering);
    source?.close();
  };
}
