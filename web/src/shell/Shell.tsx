import { Outlet, useLocation, useNavigate } from "@tanstack/react-router";
import { Search } from "lucide-react";
import { lazy, Suspense, useEffect, useRef, useState, useSyncExternalStore } from "react";
import { ActHost } from "../act/ActHost.tsx";
import { typed } from "../act/acts.ts";
import { lock } from "../api/lock.ts";
import { IS_SHARED } from "../api/place.ts";
import { SampleNote } from "../firstrun/SampleNote.tsx";
import { Skeleton } from "../parts/States.tsx";
import { MODIFIER, rememberChord, useHotkeys } from "../parts/useHotkeys.ts";
import { CutOff } from "./CutOff.tsx";
import { Locked } from "./Locked.tsx";
import { LoggedOut } from "./LoggedOut.tsx";
import { placeName } from "./places.ts";
import { Side } from "./Side.tsx";
import { choose, shown } from "./theme.ts";

const loadPalette = () => import("../search/Palette.tsx");
const Palette = lazy(loadPalette);
const Help = lazy(() => import("./Help.tsx"));

type Overlay = "palette" | "help" | null;

/** What stays while pages change: the rail, the search field, the keys that work everywhere. */
export function Shell() {
  const isLocked = useSyncExternalStore(lock.subscribe, lock.isClosed);
  const [overlay, setOverlay] = useState<Overlay>(null);
  const path = useLocation({ select: (location) => location.pathname });
  const navigate = useNavigate();
  const main = useRef<HTMLElement>(null);
  const close = () => setOverlay(null);
  const search = () => {
    typed.start(close);
    setOverlay("palette");
  };

  useHotkeys({
    "mod+k": search,
    "/": search,
    "?": () => setOverlay("help"),
    "g c": () => void navigate({ to: "/", search: keepWords }),
    "g g": () => void navigate({ to: "/graph", search: keepWords }),
    "g s": () => void navigate({ to: "/sessions" }),
    "g v": () => void navigate({ to: "/conversations" }),
    "g i": () => void navigate({ to: "/inbox" }),
    "g $": () => void navigate({ to: "/costs" }),
    ...(IS_SHARED ? { "g m": () => void navigate({ to: "/members" }) } : {}),
    "g t": () => choose(shown() === "dark" ? "light" : "dark"),
  });
  useEffect(() => {
    addEventListener("keydown", rememberChord);
    return () => removeEventListener("keydown", rememberChord);
  }, []);
  useFocusOnMove(path, main);
  useKeptFocus(main);

  if (isLocked) return IS_SHARED ? <LoggedOut /> : <Locked />;
  const isReading =
    path.startsWith("/s/") ||
    path.startsWith("/t/") ||
    path.startsWith("/c/") ||
    path.startsWith("/compare/");
  return (
    <div className={isReading ? "shell reading" : "shell"}>
      <a className="skip" href="#main" onClick={(event) => skip(event, main)}>
        Skip to the page
      </a>
      <Side help={() => setOverlay("help")} />
      <header className="top">
        <p className="place clip">{placeName(path)}</p>
        <button
          type="button"
          className="find"
          onClick={search}
          onPointerEnter={() => void loadPalette()}
          onFocus={() => void loadPalette()}
          aria-keyshortcuts="Control+K /"
        >
          <Search aria-hidden="true" />
          <span className="clip">Any half-sentence you remember</span>
          <kbd aria-hidden="true">{MODIFIER}K</kbd>
        </button>
      </header>
      <main id="main" className="main" ref={main} tabIndex={-1}>
        <CutOff />
        <SampleNote />
        <Suspense
          fallback={
            <div className="page">
              <Skeleton />
            </div>
          }
        >
          <Outlet />
        </Suspense>
      </main>
      <ActHost />
      <Suspense fallback={null}>
        {overlay === "palette" ? <Palette close={close} help={() => setOverlay("help")} /> : null}
        {overlay === "help" ? <Help close={close} /> : null}
      </Suspense>
    </div>
  );
}

/** Going from picture to picture keeps what is lit. */
function keepWords(search: { q?: string }): { q?: string } {
  return search.q ? { q: search.q } : {};
}

function skip(event: React.MouseEvent, main: React.RefObject<HTMLElement | null>): void {
  event.preventDefault();
  main.current?.focus();
}

/** A new page takes the focus, unless it placed the focus itself: a keyboard is never left on what has gone. */
function useFocusOnMove(path: string, main: React.RefObject<HTMLElement | null>): void {
  const before = useRef(path);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    const focused = document.activeElement;
    if (!focused || focused === document.body) main.current?.focus();
  }, [path, main]);
}

/** What had the focus may leave the page later than its address changes: the focus then goes to the page as a whole. */
function useKeptFocus(main: React.RefObject<HTMLElement | null>): void {
  useEffect(() => {
    let last: Element | null = null;
    const remember = () => {
      last = document.activeElement;
    };
    const observer = new MutationObserver(() => {
      if (last && !last.isConnected && document.activeElement === document.body) {
        main.current?.focus({ preventScroll: true });
      }
    });
    addEventListener("focusin", remember);
    observer.observe(document.body, { childList: true, subtree: true });
    return () => {
      removeEventListener("focusin", remember);
      observer.disconnect();
    };
  }, [main]);
}
