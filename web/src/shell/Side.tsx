import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import {
  CircleDollarSign,
  GitBranch,
  Inbox,
  Keyboard,
  ListTree,
  MessagesSquare,
  Moon,
  Search,
  Sun,
  Trees,
  Users,
} from "lucide-react";
import type { ReactNode } from "react";
import { useSyncExternalStore } from "react";
import { unreadNotices } from "../api/inbox.ts";
import { useMe } from "../api/me.ts";
import { IS_SHARED } from "../api/place.ts";
import { Mark } from "./Mark.tsx";
import { Recent } from "./Recent.tsx";
import { choose, onTheme, shown } from "./theme.ts";

/** The way to every page: a column, a rail below 900 px, a bar at the bottom below 640 px. */
export function Side(props: { help: () => void }) {
  const theme = useSyncExternalStore(onTheme, shown);
  return (
    <aside className="side" aria-label="Turntree">
      <Link to="/" className="brand" aria-label="Turntree, to the canopy">
        <Mark />
        <span>Turntree</span>
      </Link>
      <nav className="nav" aria-label="Pages">
        <Place to="/" name="Canopy" icon={<Trees aria-hidden="true" />} exact />
        <Place to="/graph" name="Graph" icon={<ListTree aria-hidden="true" />} />
        <Place to="/sessions" name="Sessions" icon={<GitBranch aria-hidden="true" />} />
        <Place to="/conversations" name="Conversations" icon={<MessagesSquare aria-hidden="true" />} />
        <Place to="/inbox" name="Inbox" icon={<Inbox aria-hidden="true" />}>
          <Unread />
        </Place>
        <Place to="/search" name="Search" icon={<Search aria-hidden="true" />} />
        <Place to="/costs" name="Costs" icon={<CircleDollarSign aria-hidden="true" />} />
        {IS_SHARED ? <Place to="/members" name="Team" icon={<Users aria-hidden="true" />} /> : null}
      </nav>
      <Recent />
      <div className="here">
        <i aria-hidden="true" />
        {IS_SHARED ? <Person /> : <span>On this machine only</span>}
        <button type="button" className="icon-button" onClick={props.help} aria-label="Keys" title="Keys  ?">
          <Keyboard aria-hidden="true" />
        </button>
        <button
          type="button"
          className="icon-button"
          onClick={() => choose(theme === "dark" ? "light" : "dark")}
          aria-label={theme === "dark" ? "Light theme" : "Dark theme"}
          title={theme === "dark" ? "Light theme" : "Dark theme"}
        >
          {theme === "dark" ? <Sun aria-hidden="true" /> : <Moon aria-hidden="true" />}
        </button>
      </div>
    </aside>
  );
}

const COUNT_SHOWN_MAX = 99;

/** How many notices the reader has not read. */
function Unread() {
  const unread = useQuery(unreadNotices).data?.unread ?? 0;
  if (unread === 0) return null;
  return (
    <b className="unread-count">
      {unread > COUNT_SHOWN_MAX ? `${COUNT_SHOWN_MAX}+` : unread}
      <span className="visually-hidden"> unread</span>
    </b>
  );
}

/** Who is logged in, and where. */
function Person() {
  const me = useMe();
  return (
    <span className="clip">{me ? <Link to="/account">{`${me.user} in ${me.workspace}`}</Link> : null}</span>
  );
}

function Place(props: {
  to: "/" | "/graph" | "/sessions" | "/conversations" | "/inbox" | "/search" | "/costs" | "/members";
  name: string;
  icon: ReactNode;
  exact?: boolean;
  children?: ReactNode;
}) {
  return (
    <Link
      to={props.to}
      activeOptions={{ exact: props.exact ?? false, includeSearch: false }}
      title={props.name}
    >
      {props.icon}
      <span>{props.name}</span>
      {props.children}
    </Link>
  );
}
