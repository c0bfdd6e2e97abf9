import "@mantine/core/styles/RadioCard.css";
import "@mantine/core/styles/RadioIndicator.css";
import {
  Alert,
  Button,
  Checkbox,
  Group,
  NativeSelect,
  Paper,
  PasswordInput,
  Radio,
  Stack,
  Textarea,
  TextInput,
} from "@mantine/core";
import { useInputState } from "@mantine/hooks";
import { useMutation } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { destinationOf } from "../../supabase/functions/audit-log-streams/destinations/index.ts";
import { newSigningSecret } from "../../supabase/functions/audit-log-streams/destinations/webhook.ts";
import { purposeOf, seal } from "../../supabase/functions/audit-log-streams/sealed.ts";
import { useOrganization } from "../data/organizations.ts";
import { usePublicKey, useStream, useStreamChange } from "../data/stream_detail.ts";
import type { Stream } from "../data/streams.ts";
import { ChooseActions } from "../log/choose_actions.tsx";
import { Copyable } from "../shared/copy.tsx";
import { useSubmit } from "../shared/form_dialog.tsx";
import { notify } from "../shared/notice.tsx";
import { Answer, Empty, Failure, Head, Hint, Lead } from "../shared/parts.tsx";
import { type Field, KIND_OF, type KindName, secretOf, whereOf } from "./kinds.ts";
import { StartField } from "./start_field.tsx";
import { storedSecret } from "./stream.tsx";
import { NotDeployed } from "./streams.tsx";
import styles from "./streams.module.css";

const route = getRouteApi("/$organizationId/streams/$streamId/change");

export function NewStream() {
  return (
    <>
      <Head title="New destination" />
      <Lead>
        When the test entry has arrived, the log follows: each entry at least once, in order.
      </Lead>
      <NotDeployed />
      <StreamForm stored={null} />
    </>
  );
}

export function ChangeStream() {
  const { streamId } = route.useParams();
  return (
    <>
      <Head title="Change destination" />
      <Lead>Another address or secret is tested first. Until then, entries wait.</Lead>
      <NotDeployed />
      <Answer query={useStream(streamId)} what="the destination">
        {({ stream }) => <StreamForm key={stream.id} stored={stream} />}
      </Answer>
    </>
  );
}

/** Asks for the settings of a new stream, or of a stored one, whose secret never comes back. */
function StreamForm({ stored }: { stored: Stream | null }) {
  const organization = useOrganization();
  const navigate = useNavigate();
  const publicKey = usePublicKey();
  // As for keys: a second attempt makes no second stream.
  const [id] = useState(() => stored?.id ?? crypto.randomUUID());
  const [givenName, setName] = useInputState(stored?.name ?? "");
  const [kind, setKind] = useState((stored?.destination.kind ?? "webhook") as KindName);
  const [values, setValues] = useState(initialValues(stored));
  const [signingSecret] = useState(newSigningSecret);
  const [isStored, setIsStored] = useInputState(false);
  const [isReplaced, setIsReplaced] = useState(false);
  const [start, setStart] = useState("now");
  const [actions, setActions] = useState(stored?.actions ?? []);
  const [chosenAll, setSendsAll] = useState(stored && stored.actions === null);
  const [seals, setSeals] = useInputState(stored?.includes_seals ?? true);

  const { name: kindName, url: address, more, secrets } = KIND_OF[kind];
  const name = givenName.trim() || kindName;
  const needsActions = KIND_OF[kind].mostEntries !== undefined;
  const sendsAll = chosenAll ?? !needsActions;
  const hasNoAction = !sendsAll && actions.length === 0;
  function valueOf({ label, options = [] }: Field): string {
    return values[`${kind} ${label}`]?.trim() || (options[0]?.value ?? "");
  }
  const bind = (field: Field) => ({
    ...field,
    value: values[`${kind} ${field.label}`] ?? "",
    onChange: (value: string) => setValues({ ...values, [`${kind} ${field.label}`]: value }),
  });
  const url = typeof address === "string" ? address : valueOf(address);
  const destination = {
    kind,
    url: url && !url.includes("://") ? `https://${url}` : url,
    ...more && valueOf(more) && { [more.name]: valueOf(more) },
  };
  const isElsewhere = stored !== null && whereOf(stored.destination) !== whereOf(destination);
  const asksForSecret = !stored || isElsewhere || isReplaced;
  const makesSecret = asksForSecret && secrets.length === 0;

  const creation = useStreamChange("create_stream");
  const change = useStreamChange("change_stream");
  const work = useMutation({
    mutationFn: async () => {
      destinationOf(destination);
      const settings = {
        name,
        destination,
        actions: sendsAll ? [] : actions,
        includes_seals: seals,
        ...asksForSecret && await sealed(),
      };
      if (stored) return await change.mutateAsync({ stream_id: id, change: settings });
      return await creation.mutateAsync({ stream: { ...settings, id, start } });
    },
    onSuccess: () => {
      notify(stored ? "Saved." : "The test entry is sent within a minute.");
      const params = { organizationId: organization.id, streamId: id };
      return navigate({ to: "/$organizationId/streams/$streamId", params });
    },
  });

  async function sealed() {
    const secret = makesSecret ? signingSecret : secretOf(kind, secrets.map(valueOf));
    if (secret === "") return {};
    // It may have changed since the form was opened.
    const { data } = await publicKey.refetch();
    if (!data) throw new Error("The function that delivers does not answer. Try again.");
    return {
      sealed: await seal(secret, data, purposeOf(organization.id, destination)),
      // The end of a short one would give too much away.
      ...secret.length >= 16 && { hint: `…${secret.slice(-4)}` },
      ...makesSecret && stored && !isElsewhere && { signs_both: true },
    };
  }

  const submit = useSubmit(() => work.mutate());
  if (!organization.is_admin) {
    return <Empty title="For administrators">Only they change destinations.</Empty>;
  }
  return (
    <form onSubmit={submit}>
      <Stack gap="lg" maw={760}>
        {!stored && (
          <Radio.Group
            label="Destination"
            value={kind}
            onChange={(chosen) => {
              work.reset();
              setKind(chosen as KindName);
            }}
          >
            <div className={styles.cards}>
              {Object.entries(KIND_OF).map(([value, { name, hint }]) => (
                <Radio.Card key={value} className={styles.card ?? ""} value={value} p="xs">
                  <Group gap="xs" wrap="nowrap" align="flex-start">
                    <Radio.Indicator size="xs" mt={2} />
                    <div>
                      <span>{name}</span>
                      <Hint>{hint}</Hint>
                    </div>
                  </Group>
                </Radio.Card>
              ))}
            </div>
          </Radio.Group>
        )}
        {typeof address === "object" && <Value {...bind(address)} isUrl />}
        {more && !more.options && <Value {...bind(more)} />}
        {isElsewhere && (
          <Alert color="yellow" role="status">
            This is another host. The stored secret is not sent there: enter the one for this
            destination.
          </Alert>
        )}
        {!asksForSecret && (
          <Group gap="xs">
            <span>
              {secrets.at(-1)?.label ?? "Signing secret"}: {storedSecret(stored)}
            </span>
            <Button size="compact-sm" onClick={() => setIsReplaced(true)}>Replace</Button>
          </Group>
        )}
        {asksForSecret &&
          secrets.map((field) => <Value key={field.label} {...bind(field)} isSecret />)}
        {makesSecret && (
          <Paper withBorder p="sm">
            <Stack gap="xs">
              <Copyable title="Signing secret" text={signingSecret} />
              <Hint>
                Your receiver checks signatures with it. It is shown only here, and only now.
                {isReplaced && !isElsewhere && " For a day, the old secret signs, too."}
              </Hint>
              <Checkbox
                label="I have stored the secret where the receiver finds it"
                required
                checked={isStored}
                onChange={setIsStored}
              />
            </Stack>
          </Paper>
        )}
        {/* Another element for a kind that needs some actions: it begins open. */}
        <details key={String(needsActions)} open={needsActions}>
          <summary>Advanced</summary>
          <Stack gap="lg" mt="sm">
            <TextInput
              label="Name"
              placeholder={kindName}
              maxLength={100}
              value={givenName}
              onChange={setName}
            />
            {more?.options && <Value {...bind(more)} />}
            <Checkbox
              label="All actions"
              checked={sendsAll}
              onChange={({ currentTarget: { checked } }) => setSendsAll(checked)}
            />
            {!sendsAll && (
              <Paper withBorder p="sm">
                <ChooseActions chosen={actions} onChange={setActions} />
              </Paper>
            )}
            {!stored && <StartField start={start} onChange={setStart} kind={kind} />}
            <Checkbox
              label="Include daily seals"
              description="Kept elsewhere, seals show later whether the log was changed."
              checked={seals}
              onChange={setSeals}
            />
          </Stack>
        </details>
        <Failure error={work.error} />
        <Group gap="md">
          <Button type="submit" variant="filled" disabled={publicKey.data === null || hasNoAction}>
            {work.isPending ? "One moment …" : stored ? "Save" : "Send a test"}
          </Button>
          <Link
            to={stored ? "/$organizationId/streams/$streamId" : "/$organizationId/streams"}
            params={{ organizationId: organization.id, streamId: id }}
            activeOptions={{ exact: true }}
          >
            Cancel
          </Link>
          {hasNoAction && <Hint>Choose an action first, under Advanced.</Hint>}
        </Group>
      </Stack>
    </form>
  );
}

interface ValueProps extends Field {
  isSecret?: boolean;
  isUrl?: boolean;
  value: string;
  onChange: (value: string) => void;
}

/** Where a person leaves https:// out, it is added. */
const URL_RULES = {
  inputMode: "url",
  pattern: "(https:\\/\\/)?[^:\\/\\s]+(:\\d+)?(\\/.*)?",
  title: "An address that begins with https://",
} as const;

function Value({ isSecret, isOptional, isMultiline, isUrl, options, ...field }: ValueProps) {
  const { onChange, ...shown } = field;
  const props = {
    ...shown,
    required: !isOptional && !options,
    autoComplete: "off",
    spellCheck: false,
    onChange: ({ currentTarget: { value } }: { currentTarget: { value: string } }) =>
      onChange(value),
  };
  if (options) return <NativeSelect {...props} data={options} />;
  if (isMultiline) return <Textarea {...props} rows={3} />;
  if (isSecret) return <PasswordInput {...props} />;
  return <TextInput {...props} {...isUrl && URL_RULES} />;
}

function initialValues(stored: Stream | null): Record<string, string> {
  if (!stored) return {};
  const { kind, url, region, body } = stored.destination;
  const { url: address, more } = KIND_OF[kind as KindName];
  return {
    ...typeof address === "object" && { [`${kind} ${address.label}`]: url },
    ...more && { [`${kind} ${more.label}`]: region ?? body ?? "" },
  };
}
