// Needs nothing.

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { describe, it } from "@std/testing/bdd";
import {
  addressesOf,
  isPublic,
  refusalOf,
} from "../../supabase/functions/audit-log-streams/addresses.ts";
import { send, type SendOptions } from "../../supabase/functions/audit-log-streams/send.ts";

/** The first and the last address of each special range. */
const SPECIAL = `0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.0
  127.255.255.255 168.63.129.16 169.254.0.0 169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.0
  192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.0 192.88.99.255 192.168.0.0 192.168.255.255
  198.18.0.0 198.19.255.255 198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255 224.0.0.0
  239.255.255.255 240.0.0.0 255.255.255.255
  :: ::1 ::127.0.0.1 ::ffff:8.8.8.8 ::ffff:7f00:1 64:ff9b::808:808 64:ff9b:1::1 100::1 100:0:0:1::1
  1fff:ffff:: 2001:: 2001:0:7f00:1:: 2001:1ff:ffff::1 2001:db8:: 2001:db8:ffff::1 2002::
  2002:ffff:ffff::1 2620:4f:8000::1 3ffe:: 3ffe:ffff::1 3fff:: 3fff:fff:ffff::1 4000:: 5f00::1
  fc00::1 fd00:ec2::254 fe80::1 fec0::1 ff02::1`.split(/\s+/);

/** Their neighbours outside, and addresses of everyday services. */
const PUBLIC = `1.0.0.0 1.1.1.1 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255
  128.0.0.0 168.63.129.15 168.63.129.17 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0
  191.255.255.255 192.0.1.0 192.0.3.0 192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0
  198.17.255.255 198.20.0.0 198.51.99.255 198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255
  2000::1 2001:200:: 2001:db7:ffff::1 2001:db9:: 2001:4860:4860::8888 2003::1 2400:cb00::1
  2606:4700::1111 2620:4e:ffff::1 2620:4f:7fff::1 2620:4f:8001::1 2a00:1450::1 3ffd:ffff::1
  3fff:1000::1`.split(/\s+/);

const NO_ADDRESS = ["", "1.2.3", "01.2.3.4", "1.2.3.4.5", "256.1.1.1", "2130706433", "0x7f.1", "x"];

/** Names as an attacker's server would give them. */
const NAMES: Record<string, string[]> = {
  "loop.example.net": ["127.0.0.1"],
  "mixed.example.net": ["1.1.1.1", "10.0.0.1"],
  "metadata.example.net": ["169.254.169.254"],
  "six.example.net": ["::1"],
  "mapped.example.net": ["::ffff:127.0.0.1"],
  "none.example.net": [],
};

/** Each leads to this machine, to a network behind it, or nowhere. PORT is that of a server here. */
const FORBIDDEN = `http://example.com/ http://127.0.0.1:PORT/ https://127.0.0.1:PORT/
  https://2130706433:PORT/ https://0x7f000001:PORT/ https://0177.0.0.1:PORT/ https://127.1:PORT/
  https://0:PORT/ https://①②⑦.0.0.1:PORT/ https://[::1]:PORT/ https://[::ffff:127.0.0.1]:PORT/
  https://[::ffff:7f00:1]:PORT/ https://[::127.0.0.1]:PORT/ https://[64:ff9b::7f00:1]:PORT/
  https://[64:ff9b:1::7f00:1]/ https://[2002:7f00:1::]:PORT/ https://[2001:0:7f00:1::]/
  https://[fd00::2]:PORT/ https://[fe80::1]/ https://[ff02::1]/ https://[2001:db8::1]/
  https://[3fff::1]/ https://[5f00::1]/ https://[100::1]/ https://10.0.0.1/ https://192.168.1.1/
  https://172.16.0.1/ https://172.31.255.255/ https://100.64.0.1/ https://169.254.169.254/
  https://192.0.2.2/ https://198.18.0.1/ https://255.255.255.255/ https://224.0.0.1/
  https://192.88.99.1/ https://0.0.0.0:PORT/ https://user:pw@hook.example.net/
  https://loop.example.net:PORT/ https://mixed.example.net/ https://metadata.example.net/
  https://six.example.net:PORT/ https://mapped.example.net/ https://none.example.net/
  https://localhost:PORT/ https://localhost.:PORT/ https://hook.example.net:22/
  https://hook.example.net:25/ https://own.project.co/ https://OWN.project.co./
  https://db.own.project.co/`.split(/\s+/);

const request = { method: "POST" as const, headers: {}, body: new Uint8Array(1) };

function options(more: Partial<SendOptions> = {}): SendOptions {
  const lookUp = (name: string) => Promise.resolve(NAMES[name] ?? []);
  return { ownHosts: ["own.project.co"], resolve: lookUp, ...more };
}

it("an address is public outside of all special ranges, up to their first and last address", () => {
  assertEquals(SPECIAL.filter(isPublic), []);
  assertEquals(PUBLIC.filter((address) => !isPublic(address)), []);
  assertEquals(NO_ADDRESS.filter(isPublic), []);
});

describe("a stream", () => {
  it("connects to none of 50 forbidden addresses, however they are written, and in a local run to no other name than localhost", async () => {
    let connections = 0;
    const server = Deno.listen({ hostname: "0.0.0.0", port: 0 });
    const accepting = (async () => {
      for await (const connection of server) {
        connections++;
        connection.close();
      }
    })();
    assertEquals(FORBIDDEN.length, 50);
    const assertRefused = async (text: string, more: Partial<SendOptions> = {}) => {
      const url = new URL(text.replace("PORT", String(server.addr.port)));
      const sending = send({ ...request, url }, options(more), AbortSignal.timeout(5_000));
      const { message } = await assertRejects(() => sending, Error, "", text);
      assertMatch(message, /refused|not on the public internet|no address/);
    };
    for (const text of FORBIDDEN) await assertRefused(text);
    // A local run calls this machine by the name localhost, and no other name or address.
    for (const text of ["http://10.0.0.1/", "https://loop.example.net:PORT/"]) {
      await assertRefused(text, { allowsLoopback: true });
    }
    server.close();
    await accepting;
    assertEquals(connections, 0);
  });

  it("may call https on port 443 and from 1024 up, at every host but the project's own", () => {
    const refused = (url: string) => refusalOf(new URL(url), options()) !== undefined;
    const urls = ["", ":443", ":1024", ":8088", ":65535", ":80", ":1023", ":465"]
      .map((port) => `https://hook.example.net${port}/a?b=c`);
    assertEquals(urls.map(refused), [false, false, false, false, false, true, true, true]);
    assertEquals(refused("https://own.project.co../"), true);
    assertEquals(refused("https://notown.project.co/"), false);
    assertEquals(refused("https://own.project.co.example.net/"), false);
  });

  it("looks a name up once, prefers IPv4, and takes at most three addresses", async () => {
    let lookups = 0;
    const six = ["2606:4700::1", "2606:4700::2", "1.1.1.1", "1.0.0.1"];
    const lookUp = () => Promise.resolve(lookups++ === 0 ? six : ["127.0.0.1"]);
    const url = new URL("https://a.example.net/");
    const found = await addressesOf(url, options({ resolve: lookUp }));
    assertEquals([found, lookups], [["1.1.1.1", "1.0.0.1", "2606:4700::1"], 1]);
  });
});
