import { Alert, Button, Group, Text, TextInput } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Fragment, useState } from "react";
import { type Organization, useOrganization } from "../data/organizations.ts";
import {
  readSeals,
  savedSeal,
  type Seal,
  type SealedDay,
  type SealPage,
  useKept,
  useSavedSeal,
  useSealedDays,
} from "../data/seals.ts";
import { download } from "../export/export_file.ts";
import { count, formatTime } from "../shared/days.ts";
import { notify } from "../shared/notice.tsx";
import { Answer, Empty, Failure, Head, Lead, State } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { CONSOLE_URL } from "../shared/transport.ts";

const route = getRouteApi("/$organizationId/seals");

const VERIFYING = "./docs/verifying.html";

export default function Seals() {
  const { id } = useOrganization();
  return (
    <>
      <Head title="Integrity" />
      <Answer query={useKept(id)} what="the seals">
        {(page) =>
          page.latest
            ? <Sealed {...page} latest={page.latest} />
            : (
              <Empty title="Nothing is sealed yet">
                Each night, every finished day (UTC) that has entries gets a seal.
              </Empty>
            )}
      </Answer>
    </>
  );
}

function Sealed({ days, altered, items, latest }: SealPage & { latest: Seal }) {
  const organization = useOrganization();
  const search = route.useSearch();
  const { saved } = search;
  const navigate = route.useNavigate();
  const [isChecking, setIsChecking] = useState(saved !== undefined);
  const downloading = useMutation({ mutationFn: () => downloadSeals(organization.id) });
  const isSound = altered.length === 0;
  return (
    <>
      <Text fz={17} fw={500} role="status">
        <State
          name={`${count(days, "day")} sealed, ${altered.length} altered since ${items[0]?.day}`}
          colour={isSound ? "var(--good)" : "var(--bad)"}
        />
      </Text>
      <Lead>
        Each night, every finished day (UTC) gets a seal: a checksum (SHA-256) of its entries and of
        the seal before. Whoever saves a seal elsewhere can <a href={VERIFYING}>prove later</a>{" "}
        that these days were not changed.
      </Lead>
      <Group gap="xs">
        <Button variant="filled" onClick={() => saveSeal(organization, latest)}>
          Save today's seal
        </Button>
        <Button aria-expanded={isChecking} onClick={() => setIsChecking(!isChecking)}>
          Check a saved seal
        </Button>
        <Button loading={downloading.isPending} onClick={() => downloading.mutate()}>
          Download seals
        </Button>
      </Group>
      <Failure error={downloading.error} />
      {isChecking && (
        <TextInput
          label="Saved seal"
          description="Its number, a colon and 64 characters. Or paste the whole file."
          placeholder={`${latest.sequence}:${latest.seal.slice(0, 8)}…`}
          maw={640}
          autoFocus={saved === undefined}
          defaultValue={saved}
          onChange={({ currentTarget: field }) => {
            field.value = field.value.match(/\d+:[0-9a-f]{64}/)?.[0] ?? field.value;
            navigate({ search: { ...search, saved: field.value || undefined }, replace: true });
          }}
        />
      )}
      {isChecking && saved !== undefined && <Checked saved={saved} />}
      {!isSound && <WhatToDo altered={altered} />}
      <details
        open={search.days ?? false}
        onToggle={({ currentTarget: { open } }) =>
          navigate({ search: { ...search, days: open || undefined }, replace: true })}
      >
        <summary>Days</summary>
        {search.days && <DayList />}
      </details>
    </>
  );
}

function Checked({ saved }: { saved: string }) {
  const { id } = useOrganization();
  const query = useSavedSeal(id, saved);
  if (query.data === null) return <Alert color="yellow" role="status">This is no seal.</Alert>;
  return (
    <Answer query={query} what="all seals">
      {(found) =>
        found && found.problems.length > 0
          ? (
            <Alert
              color="red"
              role="alert"
              title="The log is not as it was when you saved this seal"
            >
              {found.problems.map((problem) => <div key={problem}>{problem}.</div>)}
            </Alert>
          )
          : (
            <Alert
              color="green"
              role="status"
              title={`Unchanged since seal ${saved.split(":")[0]}`}
            >
              The chain has the seal that you saved, and is whole. To prove files that you exported,
              use <a href={VERIFYING}>public-audit-log verify</a>.
              {found?.changes.map((change) => <div key={change}>{change}.</div>)}
            </Alert>
          )}
    </Answer>
  );
}

function WhatToDo({ altered }: { altered: string[] }) {
  return (
    <Alert color="red" role="group" title="What to do about an altered day">
      Tell the people who run this service, and ask them for a hold, so that no entry is deleted.
      Then{" "}
      <a href={`${VERIFYING}#when-something-was-changed`}>
        find what was changed
      </a>{" "}
      on {altered.map((day, n) => (
        <Fragment key={day}>
          {n > 0 && ", "}
          <DayLink day={day} />
        </Fragment>
      ))}.
    </Alert>
  );
}

function saveSeal({ id, name }: Organization, latest: Seal): void {
  const saved = savedSeal(latest);
  const link = `${CONSOLE_URL}#/${id}/seals?saved=${encodeURIComponent(saved)}`;
  const text = `The audit log of ${name}, sealed up to ${latest.day}:\n\n${saved}\n\n` +
    `Check this seal: ${link}\n`;
  download(`seal-${latest.sequence}.txt`, new Blob([text]));
  notify("Saved. Keep the file where nobody who can write to the database can change it.");
}

/** Downloads the whole chain as one answer of `…/seals`, which `public-audit-log verify --seals` reads. */
async function downloadSeals(organizationId: string): Promise<void> {
  const { total, altered, items } = await readSeals(organizationId);
  const chain = { organization_id: organizationId, total, altered, items };
  download("seals.json", new Blob([`${JSON.stringify(chain)}\n`]));
}

function DayList() {
  return (
    <Answer query={useSealedDays(useOrganization().id)} what="the days">
      {(days) => <Table label="Days" columns={COLUMNS} rows={days} idOf={({ seal }) => seal.day} />}
    </Answer>
  );
}

const COLUMNS: Column<SealedDay>[] = [
  {
    name: "Day",
    width: "112px",
    isRowHeader: true,
    cell: ({ seal: { day } }) => <DayLink day={day} />,
  },
  {
    name: "State",
    cell: ({ alteredAt }) =>
      alteredAt
        ? <State name="Altered" colour="var(--bad)" />
        : <State name="Sealed" colour="var(--good)" />,
    hint: ({ seal, alteredAt, added, removed, sealedAfter }) =>
      [
        `Sealed ${formatTime(seal.sealed_at).slice(0, 19)}.`,
        alteredAt && `Found altered ${formatTime(alteredAt).slice(0, 19)}.`,
        sealedAfter &&
        `First sealed after ${sealedAfter}: its entries came late, or were backdated.`,
        added + removed > 0 && `Since its first seal: ${added} added, ${removed} removed.`,
      ].filter(Boolean).join(" "),
  },
  {
    name: "Entries",
    width: "96px",
    isNumber: true,
    onPhone: "named",
    value: ({ seal }) => seal.entries,
  },
];

function DayLink({ day }: { day: string }) {
  return (
    <Link from="/$organizationId/seals" to="/$organizationId/log" search={{ start: day, end: day }}>
      {day}
    </Link>
  );
}
