import { Page } from "../parts/Page.tsx";

export default function ThreadPage() {
  return <Page title="Thread">{null}</Page>;
}
