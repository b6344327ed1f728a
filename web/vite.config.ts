import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

/** Where `turntree ui --no-open --port 4747` answers while a developer changes the page. */
const server = process.env.TURNTREE_UI ?? "http://127.0.0.1:4747";

export default defineConfig({
  plugins: [react()],
  build: {
    outDir: "../src/turntree/server/page",
    emptyOutDir: true,
    target: "es2023",
    // Nothing in the page may be a data: URL or an inline script; the content security policy forbids both.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    // What a route needs is read from here by the proof of sizes.
    manifest: "manifest.json",
    chunkSizeWarningLimit: 400,
  },
  server: {
    proxy: {
      "/api": {
        target: server,
        changeOrigin: true,
        // The server refuses the origin of the development server, and is right to.
        headers: { origin: server },
      },
    },
  },
  // A busy machine takes longer over a property of a thousand texts; a test that hangs still ends.
  test: { include: ["src/**/*.test.{ts,tsx}"], environment: "node", testTimeout: 60_000 },
});
