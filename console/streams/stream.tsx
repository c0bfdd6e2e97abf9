import { ActionIcon, Alert, Button, Group, Menu, Text, VisuallyHidden } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useEffect, useState } from "react";
import { useOrganization } from "../data/organizations.ts";
import {
  type Attempt,
  type StreamDetail,
  useStream,
  useStreamChange,
} from "../data/stream_detail.ts";
import type { Stream } from "../data/streams.ts";
import { Copy } from "../shared/copy.tsx";
import { count, dayOf, formatRelative, secondsSince } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { notify } from "../shared/notice.tsx";
import {
  actionName,
  Answer,
  Fact,
  Facts,
  Failure,
  Head,
  Lead,
  State,
  Time,
} from "../shared/parts.tsx";
import { Attempts, RejectedEntries } from "./attempts.tsx";
import { cure } from "./cures.ts";
import { kindOf } from "./kinds.ts";
import { DeleteStream, ResumeStream } from "./stream_dialogs.tsx";
import { explainState, outcomeOf, STATES } from "./stream_words.ts";

const route = getRouteApi("/$organizationId/streams/$streamId");

export function OneStream() {
  const { streamId } = route.useParams();
  return (
    <Answer query={useStream(streamId)} what="the destination">
      {(detail) => <Detail {...detail} />}
    </Answer>
  );
}

function Detail({ stream, attempts, rejected }: StreamDetail) {
  const { is_admin } = useOrganization();
  useEffect(() => {
    // With another state, the button that had the focus may be gone.
    if (document.activeElement === document.body) document.querySelector("main")?.focus();
  }, [stream.state]);
  return (
    <>
      <Head title={stream.name} />
      {/* Not in the head, where buttons take the place of the name on a phone. */}
      <Group justify="space-between" gap="xs" mih={32}>
        <Link
          from="/$organizationId/streams/$streamId"
          to="/$organizationId/streams"
          activeOptions={{ exact: true }}
        >
          All destinations
        </Link>
        {is_admin && <Actions stream={stream} />}
      </Group>
      {/* Not the sentence, in which the time changes. */}
      <VisuallyHidden role="status">{STATES[stream.state].name}</VisuallyHidden>
      <Text inherit fz={15} maw="80ch">
        <State {...STATES[stream.state]} />. {explainState(stream)}
      </Text>
      <News stream={stream} test={attempts.find(({ what }) => what === "test")} />
      {rejected.length > 0 && (
        <>
          <h2>Rejected: {count(rejected.length, "entry", "entries")}</h2>
          <Lead>
            The destination does not take these. They are in the log. To send them again, pause the
            destination and resume it from the date of the first one.
          </Lead>
          <RejectedEntries entries={rejected} />
        </>
      )}
      <h2>Last attempts</h2>
      <Attempts stream={stream} attempts={attempts} />
      <h2>Settings</h2>
      <Settings stream={stream} />
    </>
  );
}

function Actions({ stream }: { stream: Stream }) {
  const retry = useStreamChange("retry_stream");
  const pause = useStreamChange("pause_stream");
  const navigate = route.useNavigate();
  const [opened, setOpened] = useState<"resume" | "delete" | null>(null);
  const dialog = { stream, onClose: () => setOpened(null) };
  const isPaused = stream.state === "paused";
  const of = { stream_id: stream.id };
  const told = (news: string) => ({ onSuccess: () => notify(news) });
  return (
    <Group gap="xs">
      {stream.failures > 0 && !isPaused && (
        <Button
          variant="filled"
          onClick={() => retry.mutate(of, told("It is tried again within a minute."))}
        >
          Retry now
        </Button>
      )}
      {isPaused && <Button variant="filled" onClick={() => setOpened("resume")}>Resume …</Button>}
      <Button onClick={() => navigate({ to: "/$organizationId/streams/$streamId/change" })}>
        Change
      </Button>
      <Menu>
        <Menu.Target>
          <ActionIcon size={32} aria-label={`Actions for ${stream.name}`}>
            <Icon name="dots" />
          </ActionIcon>
        </Menu.Target>
        <Menu.Dropdown>
          <Menu.Item
            disabled={isPaused}
            onClick={() =>
              retry.mutate({ ...of, test: true }, told("The test entry is sent within a minute."))}
          >
            Send a test
          </Menu.Item>
          {!isPaused && (
            <Menu.Item onClick={() => pause.mutate(of, told("Paused. Entries wait in the log."))}>
              Pause
            </Menu.Item>
          )}
          <Menu.Item onClick={() => setOpened("delete")}>Delete …</Menu.Item>
        </Menu.Dropdown>
      </Menu>
      <Failure error={retry.error ?? pause.error} />
      {opened === "resume" && <ResumeStream {...dialog} />}
      {opened === "delete" && <DeleteStream {...dialog} />}
    </Group>
  );
}

/** How long a test that succeeded is news. */
const TEST_SHOWN_S = 600;

/** What somebody should do something about, and the last test. Screen readers hear of changes by the state. */
function News({ stream, test }: { stream: Stream; test: Attempt | undefined }) {
  const { state, last_error, last_status, owner_left_at } = stream;
  const isTesting = state === "testing" || state === "test_failed";
  const isNew = test && !test.error && !isTesting && secondsSince(test.at) < TEST_SHOWN_S;
  const { look = "", search } = kindOf(stream) ?? {};
  return (
    <>
      {last_error && (
        <Alert
          color="red"
          role="group"
          title={cure({ ...stream.destination, status: last_status, error: last_error })}
        >
          {state === "test_failed" && test && `${outcomeOf(test)}: `}
          <code>{last_error}</code>
        </Alert>
      )}
      {isNew && (
        <Alert color="green" role="group" title="The test has arrived">
          {outcomeOf(test)}. {look} {search && (
            <>
              <code>{search}</code> <Copy label="search" text={search} isShort />
            </>
          )}
        </Alert>
      )}
      {owner_left_at && (
        <Alert color="yellow" role="group">
          The owner of this destination left on{" "}
          {dayOf(owner_left_at)}. The administrator who changes or resumes it becomes its owner. If
          nobody needs it, delete it.
        </Alert>
      )}
    </>
  );
}

function Settings({ stream }: { stream: Stream }) {
  const { destination: { kind, url, region, body }, actions, delivered_at } = stream;
  const { signs_both_until, created_at, owner_email, includes_seals } = stream;
  return (
    <Facts>
      <Fact name="Destination">
        {[kindOf(stream)?.name ?? kind, region, body].filter(Boolean).join(", ")}
      </Fact>
      <Fact name="Address">
        <code>{url}</code>
      </Fact>
      <Fact name="Secret">
        {storedSecret(stream)}
        {signs_both_until && (
          <>
            ; the old one signs, too, until <Time value={signs_both_until} />
          </>
        )}
      </Fact>
      <Fact name="Sends">
        {actions?.map(actionName).join(", ") ?? "All actions"}
        {includes_seals && "; daily seals"}
      </Fact>
      <Fact name="Delivered">
        {count(stream.entries, "entry", "entries")}
        {delivered_at && stream.entries > 0 && `, last ${formatRelative(delivered_at)}`}
      </Fact>
      <Fact name="Owner">{owner_email ?? "unknown"}</Fact>
      <Fact name="Created">
        <Time value={created_at}>{dayOf(created_at)}</Time>.{" "}
        <Link
          from="/$organizationId/streams/$streamId"
          to="/$organizationId/log"
          search={{ range: "90d", object: stream.id }}
        >
          Who changed it
        </Link>
      </Fact>
    </Facts>
  );
}

/** Says what is stored of a secret, which never comes back. */
export function storedSecret({ hint }: Stream): string {
  return hint ? `ends in ${hint}` : "stored or not needed";
}
