import { Dialog } from "../parts/Dialog.tsx";

export default function Palette(props: { close: () => void; help: () => void }) {
  return (
    <Dialog title="Search" close={props.close}>
      {null}
    </Dialog>
  );
}
