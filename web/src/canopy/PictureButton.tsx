import { Image } from "lucide-react";
import { Button } from "../parts/Button.tsx";

export function PictureButton(props: { save: () => void }) {
  return (
    <Button
      className="canopy-picture"
      icon={<Image aria-hidden="true" />}
      onClick={props.save}
      title="Save an image without titles, names or dates"
    >
      <span>Picture without words</span>
    </Button>
  );
}
