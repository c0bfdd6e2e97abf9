// Types that TypeScript does not have yet.

/** JSON.parse source text access (ECMAScript 2026). */
interface JSON {
  rawJSON?(text: string): unknown;
}

/** Trusted Types (W3C) and File System Access, where the browser has them. */
interface Window {
  trustedTypes?: {
    createPolicy(name: "default", rules: { createHTML: (text: string) => string | null }): void;
  };
  showSaveFilePicker?(options: { suggestedName: string }): Promise<FileSystemFileHandle>;
}

/** The variables that a build may set. */
interface ImportMetaEnv {
  readonly VITE_SUPABASE_URL: string;
  readonly VITE_SUPABASE_PUBLISHABLE_KEY: string;
  readonly VITE_CONSOLE_URL: string;
  readonly VITE_PUBLIC_AUDIT_LOG_URL?: string;
  readonly VITE_SIGN_IN?: string;
  readonly VITE_AUTH_STORAGE_KEY?: string;
  readonly VITE_AGENT_LABEL?: string;
}
