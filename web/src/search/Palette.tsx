import { useQuery } from "@tanstack/react-query";
import { type NavigateOptions, useLocation, useNavigate, useSearch } from "@tanstack/react-router";
import { Command } from "cmdk";
import { ArrowRight, GitBranch, History, Keyboard, SunMoon } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useRef, useState } from "react";
import { typed } from "../act/acts.ts";
import { readForest } from "../api/forest.ts";
import { IS_SHARED, SERVER } from "../api/place.ts";
import { quickSearch } from "../api/search.ts";
import type { SearchHitDocument } from "../api/types.ts";
import { lightWords, useLight } from "../canopy/lightWords.ts";
import { toneOf } from "../core/agents.ts";
import { count } from "../core/format.ts";
import { overServer } from "../core/overServer.ts";
import { joined } from "../core/shellWords.ts";
import { Dot } from "../parts/Chip.tsx";
import { Dialog } from "../parts/Dialog.tsx";
import { Time } from "../parts/Figures.tsx";
import { Keys } from "../parts/Keys.tsx";
import { Marked } from "../parts/Marked.tsx";
import { useLater } from "../parts/useLater.ts";
import { choose, shown } from "../shell/theme.ts";
import { aboutHit, commandOf, placeOf } from "./hit.ts";
import { useSearches } from "./useSearches.ts";
import "./search.css";

const SESSIONS_SHOWN = 5;
const ID = /^[0-9a-f-]{6,}$/i;

interface Row {
  value: string;
  name: string;
  about?: string;
  icon: ReactNode;
  hotkey?: string;
  /** The command line that does the same. */
  command?: string;
  run: () => void;
}

/** Search and every command, from anywhere: while you type, all turns that say the words light up. */
export default function Palette(props: { close: () => void; help: () => void }) {
  const navigate = useNavigate();
  const path = useLocation({ select: (location) => location.pathname });
  const { q } = useSearch({ strict: false });
  const [words, setWords] = useState(q ?? "");
  const [selected, setSelected] = useState("");
  const asked = useLater(words.trim(), 70);
  const hits = useQuery(quickSearch(asked));
  const list = useRef<HTMLDivElement>(null);
  const searches = useSearches();
  const isPicture = path === "/" || path === "/graph";

  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const before = typed.take().text;
    if (!before || !field.current) return;
    // The next key may come before React has drawn this: the field itself must hold it already.
    field.current.value = before;
    setWords(before);
  }, []);
  useEffect(() => lightWords(words), [words]);
  // A new answer starts at its best hit.
  // biome-ignore lint/correctness/useExhaustiveDependencies: only new words move the list
  useEffect(() => {
    // Without braces the effect would return the promise that new browsers give for a scroll.
    list.current?.scrollTo(0, 0);
  }, [asked]);

  // The best hit is chosen when it arrives, unless the reader chose already.
  const hasChosen = useRef(false);
  const best = hits.isPlaceholderData ? undefined : hits.data?.hits[0];
  useEffect(() => {
    if (best && !hasChosen.current) setSelected(hitValue(best));
  }, [best]);

  const leave = () => {
    searches.remember(words);
    props.close();
  };
  const go = (to: NavigateOptions) => {
    leave();
    void navigate(to);
  };
  /** Escape keeps the hits lit, and the address says so. */
  const dismiss = () => {
    const text = words.trim();
    if (isPicture && text !== (q ?? "")) {
      void navigate({
        to: path,
        search: (before) => ({ ...before, q: text || undefined }),
        replace: true,
      } as NavigateOptions);
    } else if (!text && !q) {
      lightWords("");
    }
    leave();
  };

  const commands: Row[] = [
    ...(IS_SHARED ? SHARED_PAGES : OWN_PAGES).map((page) => ({
      value: `page ${page.to}`,
      name: page.name,
      hotkey: page.hotkey,
      command: page.command,
      icon: <ArrowRight aria-hidden="true" />,
      run: () => go({ to: page.to } as NavigateOptions),
    })),
    {
      value: "command theme",
      name: shown() === "dark" ? "Light theme" : "Dark theme",
      hotkey: "g t",
      icon: <SunMoon aria-hidden="true" />,
      run: () => {
        choose(shown() === "dark" ? "light" : "dark");
        leave();
      },
    },
    {
      value: "command keys",
      name: "Keys",
      hotkey: "?",
      icon: <Keyboard aria-hidden="true" />,
      run: props.help,
    },
  ];
  const sessions = useMemo(() => sessionsNamed(words), [words]);
  const sessionRows: Row[] = sessions.map((session) => ({
    value: `session ${session.label}`,
    name: session.title || session.label,
    about: session.label,
    command: joined("turntree", "log", session.label),
    icon: <GitBranch aria-hidden="true" />,
    run: () => go({ to: "/s/$label", params: { label: session.label } } as NavigateOptions),
  }));
  const text = words.trim();
  const shownCommands = text
    ? commands.filter((row) => row.name.toLowerCase().includes(text.toLowerCase()))
    : commands;
  const found = text ? (hits.data?.hits ?? []) : [];
  const known = hits.data?.total ?? 0;
  const turnRow: Row[] = ID.test(text)
    ? [
        {
          value: `turn ${text}`,
          name: `Open the turn ${text}`,
          command: joined("turntree", "show", text),
          icon: <ArrowRight aria-hidden="true" />,
          run: () => go({ to: "/t/$turn", params: { turn: text } } as NavigateOptions),
        },
      ]
    : [];
  const recent: Row[] = text
    ? []
    : searches.list().map((search) => ({
        value: `recent ${search}`,
        name: search,
        command: joined("turntree", "search", search),
        icon: <History aria-hidden="true" />,
        run: () => setWords(search),
      }));
  const all = [...turnRow, ...recent, ...sessionRows, ...shownCommands];
  const command =
    all.find((row) => row.value === selected)?.command ??
    found.map((hit) => (hitValue(hit) === selected ? commandOf(hit) : undefined)).find(Boolean);

  return (
    <Dialog title="Search and commands" close={dismiss} quiet className="palette">
      <Command
        label="Search and commands"
        shouldFilter={false}
        loop
        value={selected}
        onValueChange={setSelected}
      >
        <Command.Input
          ref={field}
          value={words}
          onValueChange={(next) => {
            hasChosen.current = false;
            // Before this list is drawn: the picture waits for the answer.
            lightWords(next);
            setWords(next);
          }}
          placeholder="Any half-sentence you remember, a session, a command"
          onKeyDown={(event) => {
            if (event.key.startsWith("Arrow")) hasChosen.current = true;
            if (event.key === "Enter" && event.shiftKey && text) {
              event.preventDefault();
              go({ to: "/search", search: { q: text } } as NavigateOptions);
            }
          }}
        />
        <Command.List ref={list} label="What was found">
          <Rows heading="Open" rows={turnRow} />
          {text && (found.length > 0 || hits.isSuccess) ? (
            <Command.Group heading={<Heading words={text} found={known} isPicture={isPicture} />}>
              {found.map((hit) => (
                <Hit key={hit.turn} hit={hit} words={text} open={() => go(placeOf(hit) as NavigateOptions)} />
              ))}
              {found.length > 0 && known > found.length ? (
                <Command.Item
                  value="all results"
                  onSelect={() => go({ to: "/search", search: { q: text } } as NavigateOptions)}
                >
                  <ArrowRight aria-hidden="true" />
                  <span className="palette-name clip">All {count(known, "turn")}</span>
                  <span className="palette-aside">
                    <kbd>⇧↵</kbd>
                  </span>
                </Command.Item>
              ) : null}
              {hits.data?.hint ? <p className="palette-hint">{hits.data.hint}</p> : null}
            </Command.Group>
          ) : null}
          {hits.isError ? <p className="palette-hint">{hits.error.message}</p> : null}
          <Rows heading="Sessions" rows={sessionRows} words={text} />
          <Rows heading="Searched lately" rows={recent} />
          <Rows heading="Go to" rows={shownCommands} words={text} />
        </Command.List>
        <footer className="palette-foot">
          {command ? (
            <code className="clip">{overServer(command, SERVER)}</code>
          ) : (
            <span>
              <kbd>↑</kbd> <kbd>↓</kbd> choose
            </span>
          )}
          <span>
            <kbd>↵</kbd> open
          </span>
          <span>
            <kbd>esc</kbd> {text && isPicture ? "keep them lit" : "close"}
          </span>
        </footer>
      </Command>
    </Dialog>
  );
}

const PAGES = [
  { to: "/", name: "Canopy", hotkey: "g c", command: "turntree log --graph" },
  { to: "/graph", name: "Graph", hotkey: "g g", command: "turntree log --graph" },
  { to: "/sessions", name: "Sessions", hotkey: "g s", command: "turntree session list" },
  { to: "/conversations", name: "Conversations", hotkey: "g v", command: "turntree conversation list" },
  { to: "/inbox", name: "Inbox", hotkey: "g i", command: "turntree inbox" },
  { to: "/costs", name: "Costs", hotkey: "g $", command: "turntree stats" },
] as const;
const OWN_PAGES = [
  ...PAGES,
  { to: "/welcome", name: "Import sessions of this machine", hotkey: undefined, command: "turntree import" },
] as const;
const SHARED_PAGES = [
  ...PAGES,
  { to: "/members", name: "Members", hotkey: "g m", command: "turntree member list" },
  { to: "/keys", name: "Keys", hotkey: undefined, command: "turntree key list" },
  { to: "/account", name: "Your account, log out", hotkey: undefined, command: undefined },
] as const;

function Rows(props: { heading: string; rows: readonly Row[]; words?: string }) {
  if (props.rows.length === 0) return null;
  return (
    <Command.Group heading={props.heading}>
      {props.rows.map((row) => (
        <Command.Item key={row.value} value={row.value} onSelect={row.run}>
          {row.icon}
          <span className="palette-name clip">
            <Marked text={row.name} words={props.words ?? ""} />
          </span>
          <span className="palette-aside">{row.hotkey ? <Keys keys={row.hotkey} /> : null}</span>
          {row.about ? <span className="palette-about clip mono">{row.about}</span> : null}
        </Command.Item>
      ))}
    </Command.Group>
  );
}

function Hit(props: { hit: SearchHitDocument; words: string; open: () => void }) {
  const { hit } = props;
  return (
    <Command.Item value={hitValue(hit)} onSelect={props.open} className={`tone-${toneOf(hit.agent)}`}>
      <Dot />
      <span className="palette-name clip">
        <Marked text={hit.title || hit.snippet} words={props.words} />
      </span>
      <span className="palette-aside">
        <Time at={hit.at} as="moment" />
      </span>
      <span className="palette-about clip">{aboutHit(hit)}</span>
    </Command.Item>
  );
}

function hitValue(hit: SearchHitDocument): string {
  return `hit ${hit.turn}`;
}

/** How many turns say the words. It alone follows the light: the list need not be drawn for it. */
function Heading(props: { words: string; found: number; isPicture: boolean }) {
  const light = useLight();
  const total = light.words === props.words ? light.total : props.found;
  if (total === 0) return "No turn says this";
  return `${count(total, "turn")}${props.isPicture ? ", lit in the picture" : ""}`;
}

function sessionsNamed(words: string): { label: string; title: string }[] {
  const sessions = readForest().forest?.columns?.sessions;
  const text = words.trim().toLowerCase();
  if (!sessions || !text) return [];
  const named: { label: string; title: string }[] = [];
  for (let at = sessions.label.length - 1; at >= 0 && named.length < SESSIONS_SHOWN; at -= 1) {
    const label = sessions.label[at] ?? "";
    const title = sessions.title[at] ?? "";
    if (label.toLowerCase().includes(text) || title.toLowerCase().includes(text))
      named.push({ label, title });
  }
  return named;
}
