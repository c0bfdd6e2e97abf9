import { Alert, Button, FileButton, Stack, TextInput } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { parseKept } from "../../seals/judge.ts";
import type { Kept } from "../../seals/seal_chain.ts";
import { type LogDays, useLogDays } from "../data/log_days.ts";
import { useOrganization } from "../data/organizations.ts";
import { openFile } from "../export/export_file.ts";
import { addDays, count, isDay, today } from "../shared/days.ts";
import { Answer, Failure, Head, Lead } from "../shared/parts.tsx";
import { IS_EMBEDDED } from "../shared/transport.ts";
import { KeptField, PackForm, Verdict, Working } from "./check_pack.tsx";
import { keptSeal, monthDays } from "./pack.ts";
import { lastSealOf } from "./read_pack.ts";
import { useWork } from "./use_work.ts";
import { writePack } from "./write_pack.ts";

/** A download is kept by the browser until it is whole. */
const MOST_WITHOUT_FILE = 500_000;

export function ProvePeriod() {
  const { id: organizationId } = useOrganization();
  const [month, setMonth] = useState(addDays(`${today().slice(0, 7)}-01`, -1).slice(0, 7));
  const [known, setKnown] = useState(month);
  const [text, setText] = useState("");
  const kept = parseKept(text);
  const days = useLogDays({ organizationId, ...monthDays(known) });
  const earlier = useWork((file: File, { signal }) => lastSealOf(file, signal));
  const isReady = month === known && !days.isPlaceholderData && (text === "" || Boolean(kept));
  return (
    <>
      <Head title="Prove a period" />
      <Lead>
        Makes an evidence pack: a ZIP with the entries of a month, all seals, and a report to print.
        Anybody can check it again, here without a sign-in, or without network with{" "}
        <code>public-audit-log verify</code>.
      </Lead>
      <TextInput
        label="Month"
        w={160}
        maxLength={7}
        value={month}
        error={month !== known && "Type a month as YYYY-MM"}
        onChange={({ currentTarget: { value } }) => {
          setMonth(value);
          if (isDay(`${value}-01`) && `${value}-01` <= today()) setKnown(value);
        }}
      />
      <KeptField text={text} onChange={setText} />
      <FileButton
        accept=".zip"
        inputProps={{ "aria-label": "Earlier pack" }}
        onChange={(file) =>
          file && earlier.mutate(file, { onSuccess: (seal) => seal && setText(keptSeal(seal)) })}
      >
        {(props) => <Button {...props} w="fit-content">Take the seal of an earlier pack …</Button>}
      </FileButton>
      <Failure error={earlier.error} />
      <Answer query={days} what="the month">
        {(data) => <Prove key={data.start} {...data} kept={kept} isReady={isReady} />}
      </Answer>
      <h2>Check an evidence pack</h2>
      <PackForm />
      <Link from="/$organizationId/seals/prove" to="/$organizationId/seals">Back to the seals</Link>
    </>
  );
}

/** Makes the pack of a month. */
function Prove(props: LogDays & { kept: Kept | undefined; isReady: boolean }) {
  const { start, end, days, kept, isReady } = props;
  const organization = useOrganization();
  const past = days.filter(({ day }) => day < today());
  const entries = past.reduce((sum, { entries }) => sum + entries, 0);
  const work = useWork(async (_: void, options) => {
    const file = await openFile(`evidence_${start.slice(0, 7)}.zip`);
    return file && writePack(file, { organization, start, end, days: past }, { ...options, kept });
  });
  // Chromium refuses the dialog in a frame of another origin.
  const isTooLarge = entries > MOST_WITHOUT_FILE && (IS_EMBEDDED || !self.showSaveFilePicker);
  return (
    <Stack align="flex-start">
      <p role="status">
        {count(past.length, "day")} with {count(entries, "entry", "entries")},{" "}
        {past.filter(({ seal }) => seal).length} of them sealed.
      </p>
      <Button
        variant="filled"
        disabled={!isReady || work.isPending || past.length === 0 || isTooLarge}
        onClick={() => work.mutate()}
      >
        Make the pack
      </Button>
      {isTooLarge && (
        <Alert color="yellow" role="status">
          This browser cannot write to a file here, so {MOST_WITHOUT_FILE.toLocaleString("en")}{" "}
          entries are the most. Use Chrome or Edge, or{" "}
          <code>public-audit-log export --days=days --start={start} --end={end}</code>.
        </Alert>
      )}
      {work.isPending && <Working share={work.share} label="Written" onCancel={work.cancel} />}
      <Failure error={work.error} />
      {work.data && <Verdict proof={work.data} />}
    </Stack>
  );
}
