/** The plans that the server answers before an act. */

import type { components } from "../api/schema.d.ts";

export type ForkPreview = components["schemas"]["ForkPreview"];
export type RewindPlan = components["schemas"]["RewindPlan"];
export type FileStep = components["schemas"]["FileStep"];
export type RevertPlan = components["schemas"]["RevertPlan"];
export type RevertConflict = components["schemas"]["RevertConflict"];
export type RemovedParts = components["schemas"]["RemovedParts"];
