import "@fontsource-variable/geist/wght.css";
import { createTheme, MantineProvider } from "@mantine/core";
import { CatchBoundary } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./shell/app.tsx";
import { Broken } from "./shared/parts.tsx";

// Mantine obeys the page's policy if its variables come from style.css and its dialogs do not lock scrolling.

// The policy lets no text become HTML.
self.trustedTypes?.createPolicy("default", { createHTML: (text) => text ? null : text });

const DIALOG = {
  // A lock writes a style element, which the page's policy forbids.
  lockScroll: false,
  // Mantine's header element would be a second banner of the page.
  attributes: { header: { role: "presentation" } },
  closeButtonProps: { "aria-label": "Close" },
  styles: { title: { font: "600 16px/1.3 var(--mantine-font-family)", overflowWrap: "anywhere" } },
} as const;

const THEME = createTheme({
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Alert: { defaultProps: { p: "sm" } },
    ActionIcon: { defaultProps: { size: 30, variant: "subtle", color: "gray" } },
    Button: { defaultProps: { size: "xs", variant: "default", fw: 500 } },
    Modal: {
      defaultProps: {
        ...DIALOG,
        // A phone has no room for Mantine's own.
        xOffset: "max(8px, 5vw - 8px)",
        yOffset: "clamp(8px, 5vw - 8px, 5dvh)",
      },
    },
    Drawer: {
      defaultProps: {
        ...DIALOG,
        size: "min(100%, 510px)",
        // The list stays readable beside the drawer.
        overlayProps: { backgroundOpacity: 0.2 },
        // Each frame of a movement would draw all of a long list.
        transitionProps: { duration: 0 },
      },
    },
    Menu: {
      defaultProps: {
        position: "bottom-end",
        shadow: "md",
        // Keeps a menu inside the landmark of its button, with nothing but its items.
        withinPortal: false,
        withInitialFocusPlaceholder: false,
      },
    },
    Pagination: {
      defaultProps: {
        size: "sm",
        getItemProps: (page: number) => ({ "aria-label": `Page ${page}` }),
        getControlProps: (control: string) => ({ "aria-label": `${control} page` }),
      },
    },
    NativeSelect: { defaultProps: { size: "xs" } },
    InputBase: { defaultProps: { size: "xs", withAsterisk: false } },
    PasswordInput: { defaultProps: { size: "xs", withAsterisk: false } },
    TextInput: { defaultProps: { autoComplete: "off" } },
  },
});

const root = createRoot(document.getElementById("root") as HTMLElement);
if (self === top) {
  root.render(
    <StrictMode>
      <MantineProvider
        theme={THEME}
        defaultColorScheme="auto"
        withCssVariables={false}
        withGlobalClasses={false}
      >
        <CatchBoundary getResetKey={() => 0} errorComponent={Broken}>
          <App />
        </CatchBoundary>
      </MantineProvider>
    </StrictMode>,
  );
} else {
  // A page around this one could trick a person into a click.
  root.render(<p>The audit log console does not open inside another page.</p>);
}
