import { Page } from "../parts/Page.tsx";

export default function SessionsPage() {
  return <Page title="Sessions">{null}</Page>;
}
