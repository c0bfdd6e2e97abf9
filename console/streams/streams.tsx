import { Alert, Button } from "@mantine/core";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useOrganization } from "../data/organizations.ts";
import { usePublicKey } from "../data/stream_detail.ts";
import { type Stream, useStreams } from "../data/streams.ts";
import { count, formatRelative, formatSeconds, secondsSince } from "../shared/days.ts";
import { Icon } from "../shared/icons.tsx";
import { Answer, Empty, Head, Hint, Lead, State, Time } from "../shared/parts.tsx";
import { type Column, Table } from "../shared/table.tsx";
import { hostOf, KIND_OF, kindOf } from "./kinds.ts";
import { STATES } from "./stream_words.ts";

const route = getRouteApi("/$organizationId/streams");

/** How many streams the database lets an organization have. */
const MOST = 5;

export function Streams() {
  const organization = useOrganization();
  const navigate = route.useNavigate();
  const streams = useStreams(organization.id);
  const create = () => navigate({ to: "/$organizationId/streams/new" });
  const number = organization.is_admin && streams.data?.length || 0;
  return (
    <>
      <Head title="Destinations">
        {number > 0 && number < MOST && (
          <Button variant="filled" leftSection={<Icon name="plus" />} onClick={create}>
            Add destination
          </Button>
        )}
        {number >= MOST && <Hint>An organization has at most five destinations.</Hint>}
      </Head>
      <Lead>
        A destination gets each entry of the log of <bdi>{organization.name}</bdi>{" "}
        as it is written. No agent to run.
      </Lead>
      <NotDeployed />
      <Answer query={streams} what="destinations">
        {(streams) =>
          streams.length > 0
            ? (
              <Table
                label="Destinations"
                columns={[...COLUMNS]}
                rows={streams}
                idOf={({ id }) => id}
              />
            )
            : (
              <Empty title="No destinations yet">
                <Lead>
                  Send the log to one of these:{" "}
                  {Object.values(KIND_OF).map(({ name }) => name).join(", ")}.
                </Lead>
                {organization.is_admin && (
                  <Button variant="filled" onClick={create}>Add the first destination</Button>
                )}
              </Empty>
            )}
      </Answer>
    </>
  );
}

const COLUMNS: Column<Stream>[] = [
  {
    name: "Name",
    isRowHeader: true,
    onPhone: "line",
    cell: ({ id, name }) => (
      <Link
        from="/$organizationId/streams"
        to="/$organizationId/streams/$streamId"
        params={{ streamId: id }}
      >
        <bdi>{name}</bdi>
      </Link>
    ),
    hint: (stream) => {
      const { destination: { kind, url } } = stream;
      return `${kindOf(stream)?.name ?? kind}, ${hostOf(url)}`;
    },
  },
  {
    name: "State",
    width: "28%",
    cell: ({ state }) => <State {...STATES[state]} />,
    hint: ({ state_since, entries_rejected, owner_left_at }) =>
      [
        state_since && `for ${formatSeconds(secondsSince(state_since))}`,
        entries_rejected > 0 && `${count(entries_rejected, "entry", "entries")} rejected`,
        owner_left_at && "Owner left",
      ].filter(Boolean).join(", "),
  },
  {
    name: "Last delivered",
    width: "150px",
    onPhone: "named",
    cell: ({ delivered_at }) =>
      delivered_at ? <Time value={delivered_at}>{formatRelative(delivered_at)}</Time> : "never",
  },
];

/** Says whom to ask for what, if the function that delivers does not answer. */
export function NotDeployed() {
  const { data } = usePublicKey();
  if (data !== null) return null;
  return (
    <Alert color="yellow" role="status">
      Nothing can be sent yet, because the function that sends does not answer. Ask the people who
      run this service to set up destinations. They begin with{" "}
      <code>npx supabase functions deploy audit-log-streams</code>.
    </Alert>
  );
}
