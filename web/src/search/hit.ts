/** Where a hit leads, and how it is told. */

import type { SearchHitDocument } from "../api/types.ts";
import { agentName } from "../core/agents.ts";
import { joined } from "../core/shellWords.ts";

/** The hit in its thread; a turn that no session holds has an address of its own. */
export function placeOf(hit: SearchHitDocument) {
  const label = hit.sessions[0];
  return label
    ? ({ to: "/s/$label", params: { label }, search: { turn: hit.turn } } as const)
    : ({ to: "/t/$turn", params: { turn: hit.turn }, search: {} } as const);
}

/** `Codex · gpt-5 · codex/storefront/cart · found in what was asked` */
export function aboutHit(hit: SearchHitDocument): string {
  return [agentName(hit.agent), hit.model, hit.sessions[0], hit.why].filter(Boolean).join(" · ");
}

export function commandOf(hit: SearchHitDocument): string {
  return joined("turntree", "show", hit.turn);
}
