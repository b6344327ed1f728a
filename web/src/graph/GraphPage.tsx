import { Page } from "../parts/Page.tsx";

export default function GraphPage() {
  return <Page title="Graph">{null}</Page>;
}
