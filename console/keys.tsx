import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Button, Meter } from "react-aria-components";
import { CreateKey } from "./create_key.tsx";
import { type ApiKey, listApiKeys, type Organization } from "./data.ts";
import { RevokeKey } from "./revoke_key.tsx";
import { Failure, Loading, takeFocus, Time, TIME_ZONE } from "./ui.tsx";

/** Requests that a key may make in a minute. */
const QUOTA = 60;
const REFRESH_INTERVAL_MS = 10_000;

export function Keys({ organization }: { organization: Organization }) {
  const queryClient = useQueryClient();
  const keys = useQuery({
    queryKey: ["keys", organization.id],
    queryFn: () => listApiKeys(organization.id),
    // TanStack Query pauses it while the tab is hidden.
    refetchInterval: REFRESH_INTERVAL_MS,
  });
  const [isCreating, setIsCreating] = useState(false);
  const [revoking, setRevoking] = useState<ApiKey | null>(null);
  const [news, setNews] = useState("");
  // What has become of a request that got no answer shows in the list, too.
  const reload = () => queryClient.invalidateQueries({ queryKey: ["keys", organization.id] });

  return (
    <>
      <div className="view-head">
        <h1>API keys</h1>
        <Button
          className="button primary"
          onPress={() => {
            setNews("");
            setIsCreating(true);
          }}
        >
          Create key
        </Button>
      </div>
      <p className="hint">
        An application reads the log of {organization.name} with a key, {QUOTA} requests a minute.
      </p>
      <div role="status">
        {news && (
          // Takes the focus, which the button that is gone had.
          <div className="message success" tabIndex={-1} ref={takeFocus}>
            {news}
          </div>
        )}
      </div>
      {keys.isError && <Failure error={keys.error} onRetry={reload} />}
      {keys.isPending && <Loading what="API keys" />}
      {keys.data?.length === 0 && (
        <p className="empty">No keys yet. Create one for each application that reads the log.</p>
      )}
      {keys.data && keys.data.length > 0 &&
        (
          <KeyTable
            keys={keys.data}
            onRevoke={(key) => {
              setNews("");
              setRevoking(key);
            }}
          />
        )}

      {isCreating && (
        <CreateKey
          organization={organization}
          onChange={reload}
          onClose={() => setIsCreating(false)}
        />
      )}
      {revoking && (
        <RevokeKey
          organization={organization}
          apiKey={revoking}
          onChange={reload}
          onClose={() => setRevoking(null)}
          onRevoked={() => {
            setRevoking(null);
            setNews(`“${revoking.name}” is revoked: from now on, every request with it gets 401.`);
          }}
        />
      )}
    </>
  );
}

interface KeyTableProps {
  keys: ApiKey[];
  onRevoke: (key: ApiKey) => void;
}

function KeyTable({ keys, onRevoke }: KeyTableProps) {
  // The roles say again what the elements are: shown as cards on a narrow screen, they lose it.
  return (
    <table className="cards" role="table" aria-label="API keys">
      <thead role="rowgroup">
        <tr role="row">
          <th role="columnheader">Name</th>
          <th role="columnheader">Key</th>
          <th role="columnheader">Created</th>
          <th role="columnheader">Last used</th>
          <th role="columnheader">Last minute</th>
          <th role="columnheader">State</th>
        </tr>
      </thead>
      <tbody role="rowgroup">
        {keys.map((key) => (
          <tr role="row" key={key.id} className={key.revoked_at ? "revoked" : ""}>
            <th role="rowheader" scope="row" data-label="Name">
              <bdi>{key.name}</bdi>
            </th>
            <td role="cell" data-label="Key">
              <code>{key.hint}</code>
            </td>
            <td role="cell" data-label="Created">
              <Time value={key.created_at} />
              <span className="by">{key.created_by_email && `by ${key.created_by_email}`}</span>
            </td>
            <td role="cell" data-label="Last used">
              {key.last_used_at ? <Time value={key.last_used_at} /> : "never"}
            </td>
            <td role="cell" data-label="Last minute">
              {!key.revoked_at && <LastMinute apiKey={key} />}
            </td>
            <td role="cell" data-label="State">
              {key.revoked_at
                ? (
                  <>
                    Revoked
                    <span className="by">
                      <Time value={key.revoked_at} />
                    </span>
                    <span className="by">
                      {key.revoked_by_email && `by ${key.revoked_by_email}`}
                    </span>
                  </>
                )
                : (
                  <span className="active">
                    Active
                    <Button
                      className="button small danger"
                      aria-label={`Revoke ${key.name}, ${key.hint}`}
                      onPress={() => onRevoke(key)}
                    >
                      Revoke
                    </Button>
                  </span>
                )}
            </td>
          </tr>
        ))}
      </tbody>
      <caption>Times are in {TIME_ZONE}.</caption>
    </table>
  );
}

function LastMinute({ apiKey: { name, requests_last_minute } }: { apiKey: ApiKey }) {
  return (
    <Meter
      className="meter"
      aria-label={`Requests with ${name} in the last minute`}
      value={requests_last_minute}
      maxValue={QUOTA}
      valueLabel={`${requests_last_minute} of ${QUOTA}`}
    >
      {({ percentage, valueText }) => (
        <>
          <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
            <rect width="100" height="6" className="track" />
            <rect width={percentage} height="6" className={percentage === 100 ? "full" : "used"} />
          </svg>
          <span>{valueText}</span>
        </>
      )}
    </Meter>
  );
}
