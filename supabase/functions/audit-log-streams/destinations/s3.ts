import { sha256 } from "../../public-audit-log/sha256.ts";
import { AwsV4Signer } from "aws4fetch";
import { createHash } from "node:crypto";
import { type Kind, NDJSON, under, zip } from "./destination.ts";

/**
 * The URL is https://ENDPOINT/BUCKET/FOLDER or https://BUCKET.ENDPOINT/FOLDER, the secret ID:SECRET, or
 * ID:SECRET:SESSION. Names of objects sort as the batches were written. A repeat of a batch writes the same object.
 */
export const s3: Kind = {
  name: "Bucket",
  hint: "S3, R2, MinIO, Google Cloud Storage",
  url: {
    label: "Address of the bucket, with a folder",
    placeholder: "https://s3.eu-central-1.amazonaws.com/bucket/audit-log",
  },
  more: {
    name: "region",
    label: "Region",
    description: "Not needed for AWS, R2 and Backblaze.",
    placeholder: "us-east-1",
    isOptional: true,
  },
  secrets: [{ label: "Access key ID" }, { label: "Secret access key" }],
  look: "The folder test in the bucket has a new object.",
  async build({ lines, what, number, name }, [secret = ""], { url: address, region }) {
    const folder = what === "entries" ? "" : `${what}/`;
    const object = `${String(number).padStart(12, "0")}-${name}.ndjson.gz`;
    const body = await zip(`${lines.join("\n")}\n`);
    const [accessKeyId = "", secretAccessKey = "", sessionToken] = secret.split(":");
    const { url, headers } = await new AwsV4Signer({
      method: "PUT",
      // The library would sign a + as a space.
      url: under(address, `${folder}${object}`).href.replaceAll("+", "%2B"),
      headers: {
        "content-type": NDJSON,
        // A bucket with Object Lock, which lets nobody delete anything, demands it. WebCrypto has no MD5.
        "content-md5": createHash("md5").update(body).digest("base64"),
        "x-amz-content-sha256": await sha256(body),
      },
      body,
      accessKeyId,
      secretAccessKey,
      service: "s3",
      ...sessionToken && { sessionToken },
      // Without one, it is read off the address of AWS, R2 or Backblaze.
      ...region && { region },
    }).sign();
    return { method: "PUT", url, headers: Object.fromEntries(headers), body };
  },
  // S3 names what it has stored, and says nothing else.
  isOwn: ({ headers, body }) => headers.has("ETag") && body === "",
};
