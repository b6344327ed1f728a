import { Page } from "../parts/Page.tsx";

export default function WelcomePage() {
  return <Page title="Welcome">{null}</Page>;
}
