import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./styles/fonts.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./parts/parts.css";
import "./shell/shell.css";
import { takeKey, unlock } from "./api/lock.ts";
import { IS_SHARED } from "./api/place.ts";
import { queryClient } from "./api/queryClient.ts";
import { startStream } from "./api/stream.ts";
import { router } from "./shell/router.tsx";
import { startTheme } from "./shell/theme.ts";

startTheme();
// Over the network people log in: no address of a server for a team carries a key.
const key = IS_SHARED ? null : takeKey(location, history);
// The first read tells whether the page is open, not the exchange.
if (key) await unlock(key).catch(() => undefined);
startStream();
createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
