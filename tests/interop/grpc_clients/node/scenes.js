// Scenes of the official Node client of RocketMQ 5: `node scenes.js ADDRESS PREFIX SCENE...`. Each scene has the topic and the group
// PREFIX_SCENE. A line for each: "ok SCENE" or "not ok SCENE reason". tests/interop/test_grpc.py says what a scene must see.
const assert = require("node:assert");
const { ConsumeResult, Producer, PushConsumer, SimpleConsumer } = require("rocketmq-client-nodejs");
const { TransactionResolution } = require("rocketmq-client-nodejs/proto/apache/rocketmq/v2/definition_pb");

const HIDDEN = 60_000;
const AWAIT = 5_000;
const PATIENT = 40_000;
const [endpoints, prefix, ...names] = process.argv.slice(2);
const logger = { info() {}, warn() {}, error() {}, debug() {} };
const config = { endpoints, namespace: "", requestTimeout: 10_000, logger };

const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

async function started(client) {
  await client.startup();
  return client;
}

const producer = (topic, more = {}) => started(new Producer({ ...config, topic, ...more }));

const consumer = (topic) =>
  started(new SimpleConsumer({ ...config, consumerGroup: topic, subscriptions: new Map([[topic, "*"]]), awaitDuration: AWAIT }));

const message = (topic, body, more = {}) => ({ topic, body: Buffer.from(body), ...more });

const bodies = (found) => found.map((each) => each.body.toString());

// Acknowledges what it receives until there are so many bodies, or the time is over. A message may come twice.
async function received(by, count) {
  const found = [];
  for (const end = Date.now() + PATIENT; found.length < count && Date.now() < end; ) {
    for (const each of await by.receive(32, HIDDEN)) {
      await by.ack(each);
      if (!bodies(found).includes(each.body.toString())) {
        found.push(each);
      }
    }
  }
  return found;
}

// A push consumer that keeps what it was given, as body and attempt.
const pushed = (topic, seen, fails) =>
  started(
    new PushConsumer({
      ...config,
      consumerGroup: topic,
      subscriptions: new Map([[topic, "*"]]),
      longPollingTimeout: AWAIT,
      messageListener: {
        async consume(view) {
          const given = `${view.body} ${view.deliveryAttempt}`;
          seen.push(given);
          return fails(given) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
        },
      },
    }),
  );

async function until(seen, count) {
  for (const end = Date.now() + PATIENT; seen.length < count && Date.now() < end; ) {
    await sleep(50);
  }
}

const scenes = {
  async normal(topic) {
    const by = await producer(topic);
    await by.send(message(topic, "hello", { tag: "blue", keys: ["k1", "k2"], properties: new Map([["colour", "grün"]]) }));
    const to = await consumer(topic);
    const found = await received(to, 1);
    assert.deepStrictEqual(bodies(found), ["hello"]);
    assert.deepStrictEqual([found[0].tag, [...found[0].keys].sort()], ["blue", ["k1", "k2"]]);
    assert.deepStrictEqual([...found[0].properties], [["colour", "grün"]]);
    assert.deepStrictEqual(bodies(await to.receive(32, HIDDEN)), []);
  },

  async fifo(topic) {
    const by = await producer(topic);
    for (let number = 0; number < 6; number++) {
      await by.send(message(topic, `${number}`, { messageGroup: "one" }));
    }
    assert.deepStrictEqual(bodies(await received(await consumer(topic), 6)), ["0", "1", "2", "3", "4", "5"]);
  },

  async delay(topic) {
    const by = await producer(topic);
    const due = Date.now() + 3_000;
    await by.send(message(topic, "later", { deliveryTimestamp: new Date(due) }));
    assert.deepStrictEqual(bodies(await received(await consumer(topic), 1)), ["later"]);
    assert(Date.now() > due - 1_000); // RocketMQ delivers up to a second early.
  },

  async recall(topic) {
    const by = await producer(topic);
    const deliveryTimestamp = new Date(Date.now() + 8_000);
    const sent = await by.send(message(topic, "recalled", { deliveryTimestamp }));
    await by.send(message(topic, "kept", { deliveryTimestamp }));
    await by.recallMessage(topic, sent.recallHandle);
    const to = await consumer(topic);
    assert.deepStrictEqual(bodies(await received(to, 1)), ["kept"]);
    assert.deepStrictEqual(bodies(await to.receive(32, HIDDEN)), []);
  },

  async transaction(topic) {
    const asked = [];
    const checker = {
      async check(view) {
        asked.push(view.body.toString());
        // A server asks early where a machine is slow.
        return view.body.toString() === "rolled back" ? TransactionResolution.ROLLBACK : TransactionResolution.COMMIT;
      },
    };
    const by = await producer(topic, { checker });
    for (const body of ["committed", "rolled back", "orphaned"]) {
      const begun = by.beginTransaction();
      await by.send(message(topic, body), begun);
      if (body === "committed") {
        await begun.commit();
      } else if (body === "rolled back") {
        await begun.rollback();
      }
    }
    assert.deepStrictEqual(bodies(await received(await consumer(topic), 2)).sort(), ["committed", "orphaned"]);
    assert(asked.includes("orphaned"));
  },

  async change(topic) {
    const by = await producer(topic);
    await by.send(message(topic, "once more"));
    const to = await consumer(topic);
    let first = [];
    while (!first.length) {
      first = await to.receive(1, 30_000);
    }
    await to.changeInvisibleDuration(first[0], 1_000);
    const again = await received(to, 1);
    assert.deepStrictEqual([...bodies(again), again[0].deliveryAttempt], ["once more", 2]);
  },

  async push(topic) {
    const seen = [];
    const by = await producer(topic);
    await pushed(topic, seen, (given) => given === "07 1");
    const want = ["07 2"];
    for (let number = 0; number < 20; number++) {
      const body = String(number).padStart(2, "0");
      await by.send(message(topic, body));
      want.push(`${body} 1`);
    }
    await until(seen, 21);
    assert.deepStrictEqual(seen.sort(), want.sort());
  },

  // Fails each time; its group tries twice. The message is a dead letter when it would have come a third time.
  async dead(topic) {
    const seen = [];
    const by = await producer(topic);
    await by.send(message(topic, "poison"));
    await pushed(topic, seen, () => true);
    await until(seen, 2);
    await sleep(4_000);
    assert.deepStrictEqual(seen, ["poison 1", "poison 2"]);
  },
};

async function played(name) {
  try {
    await scenes[name](`${prefix}_${name}`);
    console.log(`ok ${name}`);
  } catch (error) {
    console.log(`not ok ${name} ${String(error).replaceAll("\n", " ")}`);
  }
}

Promise.all(names.map(played)).then(() => process.exit(0));
