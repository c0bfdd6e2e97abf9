import { Button, Group, InputBase } from "@mantine/core";
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

const REFUSED = "The browser refused. Copy this:";

export function Copy({ label, text, isShort }: CopyProps) {
  const { copied, copy, error } = useClipboard({ timeout: 3000 });
  if (error) {
    // Not an <input>, which would drop line breaks.
    return (
      <InputBase
        component="textarea"
        multiline
        rows={1}
        size="xs"
        // A table clips a label.
        label={isShort ? undefined : REFUSED}
        aria-label={REFUSED}
        readOnly
        autoFocus
        value={text}
        onFocus={({ currentTarget }) => currentTarget.select()}
      />
    );
  }
  const button = {
    "aria-label": copied ? undefined : `Copy ${label}`,
    onClick: () => copy(text),
  };
  const icon = <Icon name={copied ? "check" : "copy"} size={12} />;
  const content = (
    <>
      <span role="status">{copied && "Copied"}</span>
      {!copied && (isShort ? "Copy" : `Copy ${label}`)}
    </>
  );
  if (!isShort) return <Button size="xs" leftSection={icon} {...button}>{content}</Button>;
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
