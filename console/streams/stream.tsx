import { ActionIcon, Alert, Button, Group, Menu, Text, VisuallyHidden } from "@mantine/core";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useOrganization } from "../data/organizations.ts";
import {
  type Attempt,
  type RefusedEntry,
  type Stream,
  type StreamDetail,
  useStream,
  useStreamChange,
} from "../data/streams.ts";
import { count, dayOf, formatRelative, secondsSince } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { actionName, Answer, Failure, Head, Lead, State, Time } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { kindOf } from "./kinds.ts";
import { DeleteStream, PauseStream, ResumeStream } from "./stream_dialogs.tsx";
import { cure, explainState, STATES } from "./stream_state.ts";
import { LastDay } from "./streams.tsx";
import styles from "./streams.module.css";

const route = getRouteApi("/$organizationId/streams/$streamId");

export function OneStream() {
  const { streamId } = route.useParams();
  return (
    <Answer query={useStream(streamId)} what="the stream">
      {(detail) => <Detail {...detail} />}
    </Answer>
  );
}

/** How long a test that succeeded is news. */
const TEST_SHOWN_S = 600;

type Opened = "pause" | "resume" | "delete" | null;

function Detail({ stream, attempts, refused }: StreamDetail) {
  const { id: organizationId, is_admin } = useOrganization();
  const navigate = useNavigate();
  const [opened, setOpened] = useState<Opened>(null);
  const retry = useStreamChange("retry_stream");
  const params = { organizationId, streamId: stream.id };
  const change = () => navigate({ to: "/$organizationId/streams/$streamId/change", params });
  const isPaused = stream.state === "paused";
  const test = attempts.find(({ what }) => what === "test");
  const isArrived = test && !test.error && secondsSince(test.at) < TEST_SHOWN_S;
  return (
    <>
      <Head title={stream.name} />
      {/* Not in the head, where buttons take the place of the name on a phone. */}
      <Group justify="space-between" gap="xs" mih={32}>
        <Link to="/$organizationId/streams" params={params}>All streams</Link>
        {is_admin && (
          <Group gap="xs">
            {stream.failures > 0 && !isPaused && (
              <Button
                variant="filled"
                disabled={retry.isPending}
                onClick={() => retry.mutate({ stream_id: stream.id })}
              >
                Retry now
              </Button>
            )}
            {isPaused && (
              <Button variant="filled" onClick={() => setOpened("resume")}>Resume …</Button>
            )}
            <Button onClick={change}>Change</Button>
            <Actions
              stream={stream}
              onTest={() => retry.mutate({ stream_id: stream.id, test: true })}
              onOpen={setOpened}
            />
          </Group>
        )}
      </Group>
      {/* Not the sentence, in which the time changes. */}
      <VisuallyHidden role="status">{STATES[stream.state].name}</VisuallyHidden>
      <Text inherit fz={15} maw="80ch">
        <State {...STATES[stream.state]} />. {explainState(stream, secondsLeft(stream, attempts))}
      </Text>
      <Failure error={retry.error} />
      {stream.last_error && (
        <Alert color="red" title={stream.last_error}>
          {cure(stream, stream.last_status)}
        </Alert>
      )}
      {isArrived && (
        <Alert color="green" title={`The test has arrived: ${test.status} in ${test.ms} ms`}>
          {kindOf(stream)?.look}.
        </Alert>
      )}
      <Facts stream={stream} />
      {refused.length > 0 && (
        <>
          <Group justify="space-between" gap="xs">
            <h2>Set aside: {count(refused.length, "entry", "entries")}</h2>
            {is_admin && (
              <Button
                disabled={retry.isPending || refused.every(({ is_asked_again }) => is_asked_again)}
                onClick={() => retry.mutate({ stream_id: stream.id, resend: true })}
              >
                Send again
              </Button>
            )}
          </Group>
          <Lead>
            The destination refused these, and accepted the entries around them. They are in the
            log.
          </Lead>
          <Table
            label="Entries set aside"
            columns={REFUSED}
            rows={refused.map((entry) => ({ ...entry, organizationId }))}
            idOf={({ id }) => id}
          />
        </>
      )}
      <h2>Last attempts</h2>
      {attempts.length === 0 ? <Lead>None yet.</Lead> : (
        <Table
          label="Last attempts"
          columns={[...ATTEMPTS]}
          rows={attempts}
          idOf={({ at }) => at}
        />
      )}
      {opened === "pause" && <PauseStream stream={stream} onClose={() => setOpened(null)} />}
      {opened === "resume" && <ResumeStream stream={stream} onClose={() => setOpened(null)} />}
      {opened === "delete" && <DeleteStream stream={stream} onClose={() => setOpened(null)} />}
    </>
  );
}

interface ActionsProps {
  stream: Stream;
  onTest: () => void;
  onOpen: (opened: Opened) => void;
}

function Actions({ stream, onTest, onOpen }: ActionsProps) {
  return (
    <Menu>
      <Menu.Target>
        <ActionIcon size={32} aria-label={`Actions for ${stream.name}`}>
          <Icon name="dots" />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item disabled={stream.state === "paused"} onClick={onTest}>Send a test</Menu.Item>
        {stream.state !== "paused" && (
          <Menu.Item onClick={() => onOpen("pause")}>
            Pause …
          </Menu.Item>
        )}
        <Menu.Item onClick={() => onOpen("delete")}>Delete …</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function Facts({ stream }: { stream: Stream }) {
  const { destination: { kind, url, region, body }, actions, delivered_at } = stream;
  const { hint, signs_both_until, created_at, created_by_email, maker_left_at } = stream;
  return (
    <dl className={styles.facts}>
      <Fact name="Destination">
        {[kindOf(stream)?.name ?? kind, region, body].filter(Boolean).join(", ")}
      </Fact>
      <Fact name="Address">
        <code>{url}</code>
      </Fact>
      <Fact name="Secret">
        {hint
          ? (
            <>
              ends in <code>{hint}</code>
            </>
          )
          : "stored or not needed"}
        {signs_both_until && (
          <>
            ; the old one signs, too, until <Time value={signs_both_until} />
          </>
        )}
      </Fact>
      <Fact name="Entries">{actions?.map(actionName).join(", ") ?? "all actions"}</Fact>
      <Fact name="Seals">{stream.includes_seals ? "each night’s" : "none"}</Fact>
      <Fact name="Delivered">
        {count(stream.entries, "entry", "entries")}
        {delivered_at && stream.entries > 0 && (
          <>
            , last <Time value={delivered_at}>{formatRelative(delivered_at)}</Time>
          </>
        )}
      </Fact>
      <Fact name="Last 24 hours">
        <LastDay {...stream} />
      </Fact>
      <Fact name="Created">
        <Time value={created_at}>{dayOf(created_at)}</Time>
        {created_by_email && ` by ${created_by_email}`}
        {maker_left_at && `, who left on ${dayOf(maker_left_at)}`}.{" "}
        <Link
          from="/$organizationId/streams/$streamId"
          to="/$organizationId/log"
          search={{ range: "90d", object: stream.id }}
        >
          Who changed it
        </Link>
      </Fact>
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** Says what an attempt was about. */
function whatOf({ what, entries }: Attempt): string {
  if (what === "test") return "Test";
  if (what === "seals") return count(entries, "seal");
  return `${count(entries, "entry", "entries")}${what === "again" ? ", again" : ""}`;
}

const ATTEMPTS: Column<Attempt>[] = [
  {
    name: "Time",
    width: "minmax(140px, 160px)",
    isRowHeader: true,
    cell: ({ at }) => <Time value={at} />,
  },
  {
    name: "Sent",
    width: "minmax(100px, 150px)",
    value: whatOf,
    hint: ({ bytes }) => formatBytes(bytes),
  },
  {
    name: "Result",
    width: "minmax(140px, 1fr)",
    cell: ({ error, status, ms }) => (
      <State
        name={[status ?? "no answer", `${ms.toLocaleString("en")} ms`].join(", ")}
        colour={error ? "var(--bad)" : "var(--good)"}
      />
    ),
    hint: ({ error }) => error,
  },
];

const REFUSED: Column<RefusedEntry & { organizationId: string }>[] = [
  {
    name: "Entry",
    width: "minmax(140px, 160px)",
    isRowHeader: true,
    cell: ({ id, created_at, organizationId }) => {
      const day = dayOf(created_at);
      return (
        <Link
          to="/$organizationId/log"
          params={{ organizationId }}
          search={{ start: day, end: day, entry: id, at: created_at }}
        >
          <Time value={created_at} />
        </Link>
      );
    },
  },
  {
    name: "Reason",
    width: "minmax(140px, 1fr)",
    cell: ({ reason }) => <bdi>{reason}</bdi>,
    hint: ({ is_asked_again }) => is_asked_again && "is sent again",
  },
];

function formatBytes(bytes: number): string {
  return bytes < 1000 ? `${bytes} B` : `${Math.round(bytes / 1000).toLocaleString("en")} kB`;
}

/** About how long catching up takes, by the speed of the last attempts. */
function secondsLeft({ entries_left }: Stream, attempts: Attempt[]): number | undefined {
  const [first, ...others] = attempts.filter(({ what, error }) => what === "entries" && !error);
  const last = others.at(-1);
  if (!first || !last || entries_left === null) return undefined;
  const seconds = (Date.parse(first.at) - Date.parse(last.at)) / 1000;
  const entries = [first, ...others.slice(0, -1)].reduce((sum, { entries }) => sum + entries, 0);
  return entries_left * seconds / entries;
}
