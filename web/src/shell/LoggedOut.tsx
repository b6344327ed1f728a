import { useEffect, useRef } from "react";
import { meQuery } from "../api/me.ts";
import { loginAddress, PLACE_HERE } from "../api/place.ts";
import { queryClient } from "../api/queryClient.ts";
import { Mark } from "./Mark.tsx";

/** Shown once the server does not know this browser's login session any more; a reader who had none goes to log in. */
export function LoggedOut() {
  const me = queryClient.getQueryData(meQuery.queryKey);
  const wasIn = me !== undefined;
  const address = loginAddress(PLACE_HERE, location.pathname + location.search, me?.user);
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (wasIn) link.current?.focus();
    else location.replace(address);
  }, [wasIn, address]);
  if (!wasIn) return null;
  return (
    <main className="locked">
      <title>Logged out · Turntree</title>
      <Mark />
      <h1>You are logged out</h1>
      <p>
        This login session has ended: in another window, on another device, by an admin, or because it is
        over. Log in, and you are back at this page.
      </p>
      <a className="button primary" href={address} ref={link}>
        Log in
      </a>
    </main>
  );
}
