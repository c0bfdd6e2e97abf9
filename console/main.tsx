import { Component, type ReactNode, StrictMode } from "react";
import { I18nProvider } from "react-aria-components";
import { createRoot } from "react-dom/client";
import { App } from "./app.tsx";
import { Message } from "./ui.tsx";

// The page's policy lets no text become HTML. React Aria empties an element by it, and no more.
self.trustedTypes?.createPolicy("default", { createHTML: (text) => text ? null : text });

/** What is left when a view breaks. */
class Fallback extends Component<{ children: ReactNode }, { error: Error | null }> {
  override state = { error: null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    if (!this.state.error) return this.props.children;
    return (
      <main>
        <Message kind="error">
          This page has broken ({String(this.state.error)}). Reload it.
        </Message>
      </main>
    );
  }
}

const root = createRoot(document.getElementById("root") as HTMLElement);
if (self === top) {
  root.render(
    <StrictMode>
      {/* English with days written as the API writes them. */}
      <I18nProvider locale="en-SE">
        <Fallback>
          <App />
        </Fallback>
      </I18nProvider>
    </StrictMode>,
  );
} else {
  // A page around this one could lead a click astray.
  root.render(<p>The audit log console does not open inside another page.</p>);
}
