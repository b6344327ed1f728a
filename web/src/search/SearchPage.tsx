import { Page } from "../parts/Page.tsx";

export default function SearchPage() {
  return <Page title="Search">{null}</Page>;
}
