import "@fontsource-variable/geist/wght.css";
import { createTheme, MantineProvider } from "@mantine/core";
import { CatchBoundary } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./shell/app.tsx";
import { FRAME_ANCESTOR, listenToAncestor } from "./auth/embedding.ts";
import { Broken } from "./shared/parts.tsx";
import { IS_EMBEDDED } from "./shared/transport.ts";

// Built on Mantine. Tried beside it with the same screen, Radix Themes 3.3 weighs a little more (202 kB
// against 195, compressed), has neither calendar nor pagination, and writes HTML from text, which the
// page's policy stops: the screen stays empty. Mantine obeys the policy when its variables come from
// style.css and its dialogs do not lock scrolling.

// The page's policy lets no text become HTML.
self.trustedTypes?.createPolicy("default", { createHTML: (text) => text ? null : text });

const DIALOG = {
  defaultProps: {
    // It would write a style element, which the page's policy forbids.
    lockScroll: false,
    // Mantine's header element would be a second banner of the page.
    attributes: { header: { role: "presentation" } },
    closeButtonProps: { "aria-label": "Close" },
    styles: { title: { fontSize: 15, fontWeight: 600, overflowWrap: "anywhere", minWidth: 0 } },
  },
};
const SMALL = { defaultProps: { size: "xs" } };
const THEME = createTheme({
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    ActionIcon: { defaultProps: { size: 30 } },
    Button: SMALL,
    Modal: DIALOG,
    Menu: {
      defaultProps: {
        position: "bottom-end",
        // In the landmark where its button is, with nothing but items in it.
        withinPortal: false,
        withInitialFocusPlaceholder: false,
      },
    },
    NativeSelect: SMALL,
    PasswordInput: { defaultProps: { size: "xs", withAsterisk: false } },
    Select: { defaultProps: { size: "xs", allowDeselect: false } },
    TextInput: { defaultProps: { size: "xs", autoComplete: "off", withAsterisk: false } },
  },
});

const root = createRoot(document.getElementById("root") as HTMLElement);
if (!IS_EMBEDDED || FRAME_ANCESTOR) {
  if (IS_EMBEDDED) listenToAncestor();
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
  // A page around this one could lead a click astray.
  root.render(<p>The audit log console does not open inside another page.</p>);
}
