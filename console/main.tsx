import { createTheme, MantineProvider } from "@mantine/core";
import { Component, type ReactNode, StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";

// Built on Mantine. Tried beside it with the same screen, Radix Themes 3.3 weighs a little more (202 kB
// against 195, compressed), has neither calendar nor pagination, and writes HTML from text, which the
// page's policy stops: the screen stays empty. Mantine obeys the policy when its variables come from
// style.css and its dialogs do not lock scrolling (parts.tsx). The page with all of it: 249 kB.

// The page's policy lets no text become HTML.
self.trustedTypes?.createPolicy("default", { createHTML: (text) => text ? null : text });

const THEME = createTheme({
  defaultRadius: "sm",
  cursorType: "pointer",
  respectReducedMotion: true,
});

/** What is left when a screen breaks. */
class Fallback extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return <main role="alert">This page has broken ({String(this.state.error)}). Reload it.</main>;
  }
}

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
        <Fallback>
          <App />
        </Fallback>
      </MantineProvider>
    </StrictMode>,
  );
} else {
  // A page around this one could lead a click astray.
  root.render(<p>The audit log console does not open inside another page.</p>);
}
