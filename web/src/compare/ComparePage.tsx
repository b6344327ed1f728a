import { Page } from "../parts/Page.tsx";

export default function ComparePage() {
  return <Page title="Compare">{null}</Page>;
}
