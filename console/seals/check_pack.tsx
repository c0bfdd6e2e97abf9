import { Alert, Box, Button, FileButton, Group, Stack, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { parseKept } from "../../seals/judge.ts";
import { useWork, Working } from "../export/work.tsx";
import { Copyable } from "../shared/copy.tsx";
import { count, formatDays } from "../shared/days.ts";
import { Failure, Head, Hint, Lead } from "../shared/parts.tsx";
import { visible } from "../../common/visible.ts";
import { keptSeal, type Proof } from "./pack.ts";
import { readPack } from "./read_pack.ts";
import { headlineOf } from "./report.ts";

/** Checks evidence packs without a sign-in: everything happens in the browser. */
export function CheckPack() {
  const [text, setText] = useState("");
  return (
    <>
      <Head title="Check an evidence pack" />
      <Lead>
        Choose a pack, and see what it proves. The file stays on your machine. Without a seal that
        you kept yourself, it proves only that it is intact.
      </Lead>
      <KeptField text={text} onChange={setText} />
      <PackForm text={text} />
    </>
  );
}

/** Checks packs against the seal that somebody has kept, as text. */
export function PackForm({ text }: { text: string }) {
  const [file, setFile] = useState<File | null>(null);
  const kept = parseKept(text);
  const work = useWork((file: File, options) => readPack(file, { ...options, kept }));
  const isWrong = text !== "" && !kept;
  const { makersSeal, organization } = work.data ?? {};
  return (
    <Stack align="flex-start">
      <Group gap="xs">
        <FileButton
          accept=".zip"
          inputProps={{ "aria-label": "Evidence pack" }}
          onChange={(chosen) => {
            setFile(chosen);
            if (chosen) work.mutate(chosen);
          }}
        >
          {(props) => (
            <Button {...props} variant="filled" disabled={work.isPending || isWrong}>
              Choose a pack …
            </Button>
          )}
        </FileButton>
        {file && !work.isPending && (
          <Button disabled={isWrong} onClick={() => work.mutate(file)}>Check again</Button>
        )}
      </Group>
      <Working work={work} label="Checked" />
      <Failure error={work.error} />
      {work.data && !work.isPending && (
        <Verdict proof={work.data}>
          <Hint>
            {visible(file?.name ?? "")}, of <bdi>{organization?.name || "an organization"}</bdi>
            {" "}
            ({organization?.id}), as its seals.json says.
          </Hint>
          {makersSeal && !work.data.kept && (
            <p>
              Whoever made it had the seal{" "}
              <code>{keptSeal(makersSeal)}</code>. Compare it with your own copy.
            </p>
          )}
        </Verdict>
      )}
    </Stack>
  );
}

interface KeptFieldProps {
  text: string;
  onChange: (text: string) => void;
}

export function KeptField({ text, onChange }: KeptFieldProps) {
  return (
    <TextInput
      label="Seal that you kept elsewhere"
      placeholder="312:51789c7b7ee0…"
      description="Its number, a colon, and 64 characters. One that you copy from the log today proves nothing."
      w="min(640px, 100%)"
      value={text}
      error={text !== "" && !parseKept(text) &&
        "A seal is a number, a colon, and 64 characters from 0 to f"}
      onChange={({ currentTarget: { value } }) => onChange(value.trim())}
    />
  );
}

/** What a pack proves, and why. */
export function Verdict({ proof, children }: { proof: Proof; children?: ReactNode }) {
  const { verdict: { problems, notes, last }, entries } = proof;
  const { title, text, colour, page } = headlineOf(proof);
  const total = [...entries.values()].reduce((sum, number) => sum + number, 0);
  return (
    <Stack w="100%" gap="xs">
      <Alert color={colour} role="status">
        <Box component="strong" display="block">{title}</Box>
        {formatDays(proof)}, {count(entries.size, "day")} with {count(total, "entry", "entries")}.
        {" "}
        {text} {page && <a href={page}>What each can mean</a>}
      </Alert>
      {children}
      {problems.length + notes.length > 0 && (
        <Box component="ul" m={0} pl="lg">
          {[...problems, ...notes].map(({ text }) => <li key={text}>{text}</li>)}
        </Box>
      )}
      {last && problems.length === 0 && (
        <Copyable title="Latest seal, to keep elsewhere" text={keptSeal(last)} />
      )}
    </Stack>
  );
}
