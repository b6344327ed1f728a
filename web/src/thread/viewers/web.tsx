import { Globe } from "lucide-react";
import { webAddress } from "../markdown/blocks.ts";
import { Markdown, WebLink } from "../markdown/Markdown.tsx";
import { visible } from "../text.ts";
import { Whole } from "../Whole.tsx";
import { argument, type Call, kindOf, PATTERNS } from "./call.ts";
import { Output } from "./Output.tsx";
import type { Viewer } from "./viewer.ts";

/** A page that was read, or a search of the web. The page itself loads nothing. */
export const web: Viewer = {
  matches: (call) => kindOf(call) === "web",
  icon: Globe,
  verb: (call) => (urlOf(call) ? "Fetched" : "Searched the web"),
  what: (call) => urlOf(call) || argument(call, PATTERNS) || argument(call, ["prompt"]) || call.about,
  Body: WebBody,
};

function urlOf(call: Call): string {
  return argument(call, ["url", "uri", "link"]);
}

function WebBody({ call }: { call: Call }) {
  const address = webAddress(urlOf(call));
  const prompt = argument(call, ["prompt"]);
  if (call.state !== "ok") return <Output call={call} />;
  return (
    <div className="padded">
      {address ? (
        <p>
          <WebLink href={address.href} host={address.host} words={address.href}>
            {visible(address.href)}
          </WebLink>
        </p>
      ) : null}
      {prompt ? <p className="faint">{visible(prompt)}</p> : null}
      <Markdown text={call.output} />
      {call.isCut && call.outputAt ? <Whole at={call.outputAt} noun="page" /> : null}
    </div>
  );
}
