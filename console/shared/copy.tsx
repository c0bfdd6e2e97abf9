import { Button, Group } from "@mantine/core";
import { useClipboard } from "@mantine/hooks";
import styles from "./parts.module.css";
import { Icon } from "./icons.tsx";

interface CopyProps {
  /** Names the text: "Copy token". */
  label: string;
  text: string;
  /** Whether the button shows "Copy" alone, because the name of the text stands beside it. */
  isShort?: boolean;
}

export function Copy({ label, text, isShort }: CopyProps) {
  const clipboard = useClipboard({ timeout: 3000 });
  const result = clipboard.error ? "Select the text and copy it" : clipboard.copied ? "Copied" : "";
  const button = {
    "aria-label": result ? undefined : `Copy ${label}`,
    onClick: () => clipboard.copy(text),
  };
  const icon = <Icon name={clipboard.copied ? "check" : "copy"} size={12} />;
  const content = (
    <>
      <span role="status">{result}</span>
      {!result && (isShort ? "Copy" : `Copy ${label}`)}
    </>
  );
  if (!isShort) return <Button leftSection={icon} {...button}>{content}</Button>;
  // A table may have a thousand of them, and that many of Mantine's buttons take half a second.
  return <button type="button" className={styles.copy} {...button}>{icon} {content}</button>;
}

/** A text with its name and a button that copies it. */
export function Copyable({ title, text }: { title: string; text: string }) {
  return (
    <div>
      <Group justify="space-between" gap="xs">
        <strong>{title}</strong>
        <Copy label={title} text={text} isShort />
      </Group>
      <Written title={title} text={text} />
    </div>
  );
}

/** A text with its line breaks and spaces. */
export function Written({ title, text }: { title: string; text: string }) {
  return <pre className={styles.text} tabIndex={0} role="group" aria-label={title}>{text}</pre>;
}
