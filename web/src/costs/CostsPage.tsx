import { Page } from "../parts/Page.tsx";

export default function CostsPage() {
  return <Page title="Costs">{null}</Page>;
}
