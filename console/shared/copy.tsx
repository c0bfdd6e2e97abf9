import { Button, Group } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import styles from "./parts.module.css";
import { Icon } from "./icons.tsx";

export interface CopyProps {
  /** Names the text on the button: "Copy token". */
  label: string;
  text: string;
  /** Shows "Copy" alone, for a button beside the name of the text. */
  isShort?: boolean;
}

export function Copy({ label, text, isShort }: CopyProps) {
  const clipboard = useClipboard({ timeout: 3000 });
  const result = clipboard.error ? "Select the text and copy it" : clipboard.copied ? "Copied" : "";
  return (
    <Button
      size="compact-xs"
      leftSection={<Icon name={clipboard.copied ? "check" : "copy"} size={12} />}
      aria-label={result ? undefined : `Copy ${label}`}
      onClick={() => clipboard.copy(text)}
    >
      <span role="status">{result}</span>
      {!result && (isShort ? "Copy" : `Copy ${label}`)}
    </Button>
  );
}

/** A text with its name and a button that copies it. */
export function Copyable({ title, label, text }: CopyProps & { title: string }) {
  return (
    <div>
      <Group justify="space-between" gap="xs">
        <strong>{title}</strong>
        <Copy label={label} text={text} isShort />
      </Group>
      <Written title={title} text={text} />
    </div>
  );
}

/** A text with its line breaks and spaces. */
export function Written({ title, text }: { title: string; text: string }) {
  return <pre className={styles.text} tabIndex={0} role="group" aria-label={title}>{text}</pre>;
}
