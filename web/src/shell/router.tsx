/** The table of addresses. Each page is loaded when it is first needed, or when a pointer rests on its link. */

import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  redirect,
} from "@tanstack/react-router";
import { PLACE_HERE } from "../api/place.ts";
import { parseSearch, stringifySearch, validAddress } from "./address.ts";
import { Broken } from "./Broken.tsx";
import { NotHere } from "./NotHere.tsx";
import { Shell } from "./Shell.tsx";

const root = createRootRoute({
  component: Shell,
  validateSearch: validAddress,
  notFoundComponent: NotHere,
  errorComponent: Broken,
});

const page = <Path extends string>(path: Path, load: () => Promise<{ default: () => React.ReactNode }>) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: lazyRouteComponent(load),
    errorComponent: Broken,
  });

const routes = [
  page("/", () => import("../canopy/CanopyPage.tsx")),
  page("/graph", () => import("../graph/GraphPage.tsx")),
  page("/s/$label", () => import("../thread/ThreadPage.tsx")),
  page("/t/$turn", () => import("../thread/ThreadPage.tsx")),
  page("/compare", () => import("../compare/ComparePage.tsx")),
  page("/compare/$pair", () => import("../compare/ComparePage.tsx")),
  page("/search", () => import("../search/SearchPage.tsx")),
  page("/sessions", () => import("../sessions/SessionsPage.tsx")),
  page("/conversations", () => import("../conversations/ConversationsPage.tsx")),
  page("/c/$conversation", () => import("../conversations/ConversationPage.tsx")),
  page("/inbox", () => import("../inbox/InboxPage.tsx")),
  page("/costs", () => import("../costs/CostsPage.tsx")),
  page("/members", () => import("../team/MembersPage.tsx")),
  page("/invitations", () => import("../team/InvitationsPage.tsx")),
  page("/keys", () => import("../team/KeysPage.tsx")),
  page("/account", () => import("../team/AccountPage.tsx")),
  page("/welcome", () => import("../firstrun/WelcomePage.tsx")),
  createRoute({
    getParentRoute: () => root,
    path: "/canopy",
    beforeLoad: () => {
      throw redirect({ to: "/" });
    },
  }),
] as const;

export const router = createRouter({
  routeTree: root.addChildren([...routes]),
  basepath: PLACE_HERE || "/",
  parseSearch,
  stringifySearch,
  defaultPreload: "intent",
  scrollRestoration: false,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
