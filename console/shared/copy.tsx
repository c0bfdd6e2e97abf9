import { Box, Button, Group } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import { Icon } from "./icons.tsx";
import { visible } from "../../supabase/functions/_shared/visible.ts";

interface CopyProps {
  label: string;
  text: string;
  /** Whether the button shows "Copy" alone, because the name of the text stands beside it. */
  isShort?: boolean;
}

export function Copy({ label, text, isShort }: CopyProps) {
  const { copied, copy, error } = useClipboard({ timeout: 3000 });
  // Beside its name, the text can be selected.
  if (error && !isShort) return <span role="alert">The browser refused. Copy this: {text}</span>;
  return (
    <Button
      size={isShort ? "compact-xs" : "xs"}
      style={{ flexShrink: 0 }}
      leftSection={<Icon name={copied ? "check" : "copy"} size={isShort ? 12 : 16} />}
      aria-label={copied ? undefined : `Copy ${label}`}
      onClick={() => copy(text)}
    >
      <span role="status">{copied && "Copied"}</span>
      {!copied && (error ? "Select it" : isShort ? "Copy" : `Copy ${label}`)}
    </Button>
  );
}

export function Copyable({ title, text }: { title: string; text: string }) {
  return (
    <div>
      <Group justify="space-between" align="flex-start" gap="xs" wrap="nowrap">
        <strong>{title}</strong>
        <Copy label={title} text={text} isShort />
      </Group>
      <Box
        component="pre"
        mt={6}
        px={12}
        py={10}
        mah="50vh"
        bd="1px solid var(--line)"
        bdrs={6}
        bg="var(--soft)"
        style={{ whiteSpace: "pre-wrap", overflowY: "auto" }}
        tabIndex={0}
        role="group"
        aria-label={title}
      >
        {text.split("\n").map(visible).join("\n")}
      </Box>
    </div>
  );
}
