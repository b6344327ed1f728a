import { Page } from "../parts/Page.tsx";

export default function CanopyPage() {
  return <Page title="Canopy">{null}</Page>;
}
