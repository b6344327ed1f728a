import { Link } from "@tanstack/react-router";
import { Page } from "../parts/Page.tsx";
import { Empty } from "../parts/States.tsx";

export function NotHere() {
  return (
    <Page title="Nothing here" quiet>
      <Empty
        title="There is no page at this address"
        action={
          <Link to="/" className="button primary">
            Open the canopy
          </Link>
        }
      >
        The address may be mistyped. Everything you recorded is in the canopy.
      </Empty>
    </Page>
  );
}
