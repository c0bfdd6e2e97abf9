import { Alert, Box, Button, Group, Paper, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { type LogDay, type LogDays, useLogDays } from "../data/log_days.ts";
import { useOrganization } from "../data/organizations.ts";
import {
  ALL_DAYS,
  readSeals,
  type Seal,
  SEAL_STATES,
  type SealState,
  useAlteredDays,
  useLatestSeal,
} from "../data/seals.ts";
import { download } from "../export/export_file.ts";
import { Copy } from "../shared/copy.tsx";
import { count } from "../shared/days.ts";
import { Answer, Empty, Failure, Head, Lead, State, Time } from "../shared/parts.tsx";
import { RangePicker } from "../shared/range.tsx";
import { daysOf } from "../shared/search_params.ts";
import { type Column, Table } from "../shared/table.tsx";

const route = getRouteApi("/$organizationId/seals");

const VERIFYING = "./docs/verifying.html";

export default function Seals() {
  const { id: organizationId } = useOrganization();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { data: latest, error, refetch } = useLatestSeal(organizationId);
  const { data: [altered] = [] } = useAlteredDays(organizationId);
  const range = daysOf(search, "30d");
  const days = useLogDays({ organizationId, ...range });
  const saving = useMutation({ mutationFn: () => downloadSeals(organizationId) });
  return (
    <>
      <Head title="Integrity">
        {latest && <Copy label="seal" text={savedSeal(latest)} />}
        <Button loading={saving.isPending} onClick={() => saving.mutate()}>
          Download seals (JSON)
        </Button>
      </Head>
      <Lead>
        Each night, every finished day gets a seal: a SHA-256 over its entries, chained to the seal
        before. Save the latest seal elsewhere. With it,{" "}
        <a href={VERIFYING}>public-audit-log verify</a> shows later whether these days were changed.
        {latest && ` The latest is number ${latest.sequence}, of ${latest.day}.`}
      </Lead>
      {altered && <WhatToDo day={altered} />}
      <Failure error={error} onRetry={refetch} />
      <Failure error={saving.error} />
      <RangePicker
        search={search}
        preset="30d"
        onChange={(range) => navigate({ search: range })}
      />
      <Answer query={days} what="seals">
        {(data) => (
          <Stack gap="sm" aria-busy={days.isPlaceholderData}>
            <Verdict {...data} />
            <Days {...data} />
          </Stack>
        )}
      </Answer>
    </>
  );
}

function WhatToDo({ day }: { day: string }) {
  return (
    <Paper component="section" withBorder p="md" maw="80ch">
      <h2>What to do about an altered day</h2>
      <Box component="ol" mt={6} mb={0} pl="lg">
        <li>
          Tell the people who run this service. Somebody with the rights of the owner changed the
          database past its guards. Nothing should be restored before they know who it was.
        </li>
        <li>Ask them for a hold, so that the service deletes no entry meanwhile.</li>
        <li>
          <Link
            from="/$organizationId/seals"
            to="/$organizationId/log"
            search={{ start: day, end: day }}
          >
            Export the day
          </Link>{" "}
          as NDJSON, and download the seals. Both keep the day as it is now.
        </li>
        <li>
          Compare the day with what left the service before: an older export, or what a stream
          delivered. <a href={`${VERIFYING}#when-something-was-changed`}>How to compare</a>
        </li>
        <li>
          Write down what you found out. The day stays marked, and gets no new seal. The seals of
          other days still hold.
        </li>
      </Box>
    </Paper>
  );
}

/** A seal as people save it. */
function savedSeal({ sequence, seal }: Seal): string {
  return `${sequence}:${seal}`;
}

/** Downloads the whole chain as one answer of `…/seals`, which `public-audit-log verify --seals` reads. */
async function downloadSeals(organizationId: string): Promise<void> {
  const { total, altered, items } = await readSeals({ organizationId, ...ALL_DAYS });
  const chain = { organization_id: organizationId, total, altered, items };
  download("seals.json", new Blob([`${JSON.stringify(chain)}\n`]));
}

const COLUMNS: Column<LogDay>[] = [
  {
    name: "Day (UTC)",
    width: "112px",
    isRowHeader: true,
    onPhone: "beside",
    cell: DayLink,
  },
  {
    name: "State",
    onPhone: "beside",
    cell: ({ state, seal, alteredAt }) => (
      <span>
        <State {...SEAL_STATES[state]} />{" "}
        <Text span inherit c="dimmed">
          {alteredAt && seal && "· sealed "}
          {seal && <Time value={seal.sealed_at} />}
          {alteredAt && (
            <>
              , found altered <Time value={alteredAt} />
            </>
          )}
        </Text>
      </span>
    ),
    hint: ({ entries, state, seal, added, removed, sealedAfter }) =>
      [
        sealedAfter &&
        `First sealed after ${sealedAfter}: its entries came late, or were backdated.`,
        added + removed > 0 && `Since its first seal: ${added} added, ${removed} removed.`,
        state === "sealed" && seal && seal.entries !== entries &&
        `Sealed with ${count(seal.entries, "entry", "entries")}. ` +
          "The next seal will say how many were added or removed",
      ].filter(Boolean).join(" "),
  },
  {
    name: "Entries",
    width: "96px",
    isNumber: true,
    onPhone: "beside",
    value: ({ entries }) => entries,
  },
  {
    name: "Seal",
    width: "170px",
    onPhone: "beside",
    cell: ({ day, seal }) =>
      seal && (
        // Tables give a div two lines of text.
        <Group component="span" gap="xs" wrap="nowrap">
          <Text component="code" fz={12.5} w="9ch" truncate>{seal.seal}</Text>
          <Copy label={`seal of ${day}`} text={savedSeal(seal)} isShort />
        </Group>
      ),
  },
];

/** Says in a line what the seals of a range say. */
function Verdict({ days, keep_days }: LogDays) {
  const numberOf = (wanted: SealState) => days.filter(({ state }) => state === wanted).length;
  const open = numberOf("open");
  return (
    <p role="status">
      {count(numberOf("sealed"), "day")} sealed{open > 0 && `, ${open} not yet`},{"  "}
      {numberOf("altered") || "none"} altered.
      {keep_days !== null && ` Entries are deleted after ${count(keep_days, "day")}.`}
    </p>
  );
}

function Days({ days, hold_reason }: LogDays) {
  return (
    <>
      {hold_reason !== null && (
        <Alert color="gray" role="status">
          <strong>On hold: the service deletes no entry.</strong>
          <div>{hold_reason}</div>
        </Alert>
      )}
      {days.length > 0
        ? <Table label="Seals" columns={COLUMNS} rows={days.toReversed()} idOf={({ day }) => day} />
        : <Empty title="Nothing to seal">These days have no entries. Choose others.</Empty>}
    </>
  );
}

/** Leads to the entries of a day. */
function DayLink({ day }: { day: string }) {
  return (
    <Link from="/$organizationId/seals" to="/$organizationId/log" search={{ start: day, end: day }}>
      {day}
    </Link>
  );
}
