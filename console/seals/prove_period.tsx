import { Alert, Box, Button, FileButton, Paper, Stack, TextInput } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useState } from "react";
import { parseKept } from "../../seals/judge.ts";
import { type LogDays, useLogDays } from "../data/log_days.ts";
import { useOrganization } from "../data/organizations.ts";
import { openFile } from "../export/export_file.ts";
import { useWork, Working } from "../export/work.tsx";
import { addDays, count, isDay, today } from "../shared/days.ts";
import { Failure, Head, Lead } from "../shared/parts.tsx";
import { KeptField, PackForm, Verdict } from "./check_pack.tsx";
import { keptSeal, monthDays } from "./pack.ts";
import { lastSealOf } from "./read_pack.ts";
import { writePack } from "./write_pack.ts";

const route = getRouteApi("/$organizationId/seals/prove");

/** A download is kept by the browser until it is whole. */
const MOST_WITHOUT_FILE = 500_000;

/** Makes evidence packs and checks them, both against a seal that the person has kept. */
export function ProvePeriod() {
  const [text, setText] = useState("");
  const earlier = useWork((file: File, { signal }) => lastSealOf(file, signal));
  return (
    <>
      <Head title="Prove a period">
        <Link from="/$organizationId/seals/prove" to="/$organizationId/seals">
          Back to the seals
        </Link>
      </Head>
      <Lead>
        An evidence pack is a ZIP with the entries of a month, all seals, and a report to print.
        Anybody can check it: here, without signing in, or offline with{" "}
        <code>public-audit-log verify</code>.
      </Lead>
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
      <Box
        display="grid"
        mt="xs"
        style={{ gridTemplateColumns: "repeat(auto-fit, minmax(min(100%, 340px), 1fr))", gap: 16 }}
      >
        <Paper withBorder p="md">
          <MonthForm text={text} />
        </Paper>
        <Paper withBorder p="md">
          <Stack>
            <h2>Check a pack</h2>
            <Lead>Choose a pack to see what it proves. It stays on your machine.</Lead>
            <PackForm text={text} />
          </Stack>
        </Paper>
      </Box>
    </>
  );
}

function MonthForm({ text }: { text: string }) {
  const { month: asked } = route.useSearch();
  const [month, setMonth] = useState(
    asked ?? addDays(`${today().slice(0, 7)}-01`, -1).slice(0, 7),
  );
  const isMonth = isDay(`${month}-01`) && `${month}-01` <= today();
  return (
    <Stack align="flex-start">
      <h2>Make a pack</h2>
      <TextInput
        type="month"
        label="Month"
        w={160}
        value={month}
        error={!isMonth && "Type a month as YYYY-MM"}
        onChange={({ currentTarget: { value } }) => setMonth(value)}
      />
      {isMonth && <Month key={month} month={month} text={text} />}
    </Stack>
  );
}

function Month({ month, text }: { month: string; text: string }) {
  const { id: organizationId } = useOrganization();
  const days = useLogDays({ organizationId, ...monthDays(month) });
  if (days.data) return <MakePack {...days.data} text={text} />;
  if (days.error) return <Failure error={days.error} onRetry={days.refetch} />;
  // As high as what comes.
  return <Box h={66} role="status">Loading the month …</Box>;
}

function MakePack({ start, end, days, text }: LogDays & { text: string }) {
  const organization = useOrganization();
  const kept = parseKept(text);
  const name = `evidence_${start.slice(0, 7)}.zip`;
  const past = days.filter(({ day }) => day < today());
  const entries = past.reduce((sum, { entries }) => sum + entries, 0);
  // An altered day gets no new seal.
  const late = past.filter(({ state, seal, entries }) =>
    state === "sealed" && seal && seal.entries !== entries
  );
  const work = useWork(async (_: void, options) => {
    const file = await openFile(name);
    return file && writePack(file, { organization, start, end, days: past }, { ...options, kept });
  });
  const isTooLarge = entries > MOST_WITHOUT_FILE && !self.showSaveFilePicker;
  return (
    <>
      <p role="status">
        {count(past.length, "day")} with {count(entries, "entry", "entries")},{" "}
        {past.filter(({ seal }) => seal).length} of them sealed.
      </p>
      {late.length > 0 && (
        <Alert color="yellow" role="status">
          {late.map(({ day }) => day).join(", ")}: entries were added or removed after the seal. The
          next seal, made in the night, declares this. A pack made before says that these days
          differ.
        </Alert>
      )}
      <Button
        variant="filled"
        disabled={(text !== "" && !kept) || work.isPending || past.length === 0 || isTooLarge}
        onClick={() => work.mutate()}
      >
        Make the pack
      </Button>
      {isTooLarge && (
        <Alert color="yellow" role="status">
          This browser cannot write to a file here, so {MOST_WITHOUT_FILE.toLocaleString("en")}{" "}
          entries is the most. Use Chrome or Edge, or{" "}
          <code>public-audit-log export --days=days --start={start} --end={end}</code>.
        </Alert>
      )}
      <Working work={work} label="Written" />
      <Failure error={work.error} />
      {work.data && (
        <>
          <Alert w="100%" color="green" role="status">
            <strong>{name} is written.</strong>{" "}
            It has these entries, all seals and a report to print. What it proves:
          </Alert>
          <Verdict proof={work.data} />
        </>
      )}
    </>
  );
}
