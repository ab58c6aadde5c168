import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.rocketmq.client.apis.ClientConfiguration;
import org.apache.rocketmq.client.apis.ClientServiceProvider;
import org.apache.rocketmq.client.apis.consumer.ConsumeResult;
import org.apache.rocketmq.client.apis.consumer.FilterExpression;
import org.apache.rocketmq.client.apis.consumer.PushConsumer;
import org.apache.rocketmq.client.apis.consumer.SimpleConsumer;
import org.apache.rocketmq.client.apis.message.MessageBuilder;
import org.apache.rocketmq.client.apis.message.MessageView;
import org.apache.rocketmq.client.apis.producer.Producer;
import org.apache.rocketmq.client.apis.producer.ProducerBuilder;
import org.apache.rocketmq.client.apis.producer.SendReceipt;
import org.apache.rocketmq.client.apis.producer.Transaction;
import org.apache.rocketmq.client.apis.producer.TransactionResolution;

/**
 * Scenes of the official Java client of RocketMQ 5: `Scenes ADDRESS PREFIX SCENE...`. Each scene has the topic and the group
 * PREFIX_SCENE. A line for each: "ok SCENE" or "not ok SCENE reason". tests/interop/test_grpc.py says what a scene must see.
 */
public class Scenes {
    static final Duration HIDDEN = Duration.ofMinutes(1);
    static final Duration AWAIT = Duration.ofSeconds(5);
    static final Duration PATIENT = Duration.ofSeconds(40);
    static final ClientServiceProvider PROVIDER = ClientServiceProvider.loadService();
    static ClientConfiguration config;

    interface Scene {
        void play(String topic) throws Exception;
    }

    static void equal(Object got, Object want) {
        if (!got.equals(want)) {
            throw new AssertionError("got " + got + ", want " + want);
        }
    }

    static ProducerBuilder producer(String topic) {
        return PROVIDER.newProducerBuilder().setClientConfiguration(config).setTopics(topic);
    }

    static MessageBuilder message(String topic, String body) {
        return PROVIDER.newMessageBuilder().setTopic(topic).setBody(body.getBytes(StandardCharsets.UTF_8));
    }

    static SimpleConsumer consumer(String topic) throws Exception {
        return PROVIDER.newSimpleConsumerBuilder().setClientConfiguration(config).setConsumerGroup(topic)
            .setAwaitDuration(AWAIT).setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL)).build();
    }

    static String body(MessageView view) {
        return StandardCharsets.UTF_8.decode(view.getBody()).toString();
    }

    static List<String> bodies(List<MessageView> views) {
        return views.stream().map(Scenes::body).collect(Collectors.toList());
    }

    /** Acknowledges what it receives until there are so many bodies, or the time is over. A message may come twice. */
    static List<MessageView> received(SimpleConsumer by, int count) throws Exception {
        List<MessageView> found = new ArrayList<>();
        Instant end = Instant.now().plus(PATIENT);
        while (found.size() < count && Instant.now().isBefore(end)) {
            for (MessageView each : by.receive(32, HIDDEN)) {
                by.ack(each);
                if (!bodies(found).contains(body(each))) {
                    found.add(each);
                }
            }
        }
        return found;
    }

    static void normal(String topic) throws Exception {
        try (Producer by = producer(topic).build(); SimpleConsumer to = consumer(topic)) {
            by.send(message(topic, "hello").setTag("blue").setKeys("k1", "k2").addProperty("colour", "grün").build());
            List<MessageView> found = received(to, 1);
            equal(bodies(found), List.of("hello"));
            MessageView view = found.get(0);
            equal(view.getTag().get(), "blue");
            equal(view.getKeys().stream().sorted().collect(Collectors.toList()), List.of("k1", "k2"));
            equal(view.getProperties(), Map.of("colour", "grün"));
            equal(bodies(to.receive(32, HIDDEN)), List.of());
        }
    }

    static void fifo(String topic) throws Exception {
        try (Producer by = producer(topic).build(); SimpleConsumer to = consumer(topic)) {
            for (int number = 0; number < 6; number++) {
                by.send(message(topic, "" + number).setMessageGroup("one").build());
            }
            equal(bodies(received(to, 6)), List.of("0", "1", "2", "3", "4", "5"));
        }
    }

    static void delay(String topic) throws Exception {
        try (Producer by = producer(topic).build(); SimpleConsumer to = consumer(topic)) {
            long due = System.currentTimeMillis() + 3_000;
            by.send(message(topic, "later").setDeliveryTimestamp(due).build());
            equal(bodies(received(to, 1)), List.of("later"));
            // RocketMQ delivers up to a second early.
            equal(System.currentTimeMillis() > due - 1_000, true);
        }
    }

    /** Clients before 5.0.8 have no recall: the scene is not played with them. */
    static void recall(String topic) throws Exception {
        Method handle = SendReceipt.class.getMethod("getRecallHandle");
        Method recall = Producer.class.getMethod("recallMessage", String.class, String.class);
        try (Producer by = producer(topic).build(); SimpleConsumer to = consumer(topic)) {
            long due = System.currentTimeMillis() + 8_000;
            SendReceipt sent = by.send(message(topic, "recalled").setDeliveryTimestamp(due).build());
            by.send(message(topic, "kept").setDeliveryTimestamp(due).build());
            try {
                recall.invoke(by, topic, handle.invoke(sent));
            } catch (InvocationTargetException error) {
                throw (Exception) error.getCause();
            }
            equal(bodies(received(to, 1)), List.of("kept"));
            equal(bodies(to.receive(32, HIDDEN)), List.of());
        }
    }

    static void transaction(String topic) throws Exception {
        List<String> asked = Collections.synchronizedList(new ArrayList<>());
        Producer made = producer(topic).setTransactionChecker(view -> {
            asked.add(body(view));
            // A server asks early where a machine is slow.
            return body(view).equals("rolled back") ? TransactionResolution.ROLLBACK : TransactionResolution.COMMIT;
        }).build();
        try (Producer by = made; SimpleConsumer to = consumer(topic)) {
            for (String text : List.of("committed", "rolled back", "orphaned")) {
                Transaction begun = by.beginTransaction();
                by.send(message(topic, text).build(), begun);
                if (text.equals("committed")) {
                    begun.commit();
                } else if (text.equals("rolled back")) {
                    begun.rollback();
                }
            }
            equal(bodies(received(to, 2)).stream().sorted().collect(Collectors.toList()), List.of("committed", "orphaned"));
            equal(asked.contains("orphaned"), true);
        }
    }

    static void change(String topic) throws Exception {
        try (Producer by = producer(topic).build(); SimpleConsumer to = consumer(topic)) {
            by.send(message(topic, "once more").build());
            List<MessageView> first = new ArrayList<>();
            while (first.isEmpty()) {
                first = to.receive(1, Duration.ofSeconds(30));
            }
            to.changeInvisibleDuration(first.get(0), Duration.ofSeconds(1));
            List<MessageView> again = received(to, 1);
            equal(bodies(again), List.of("once more"));
            equal(again.get(0).getDeliveryAttempt(), 2);
        }
    }

    /** A push consumer that keeps what it was given, as body and attempt. */
    static PushConsumer pushed(String topic, List<String> seen, CountDownLatch count, Predicate<String> fails) throws Exception {
        return PROVIDER.newPushConsumerBuilder().setClientConfiguration(config).setConsumerGroup(topic)
            .setSubscriptionExpressions(Map.of(topic, FilterExpression.SUB_ALL))
            .setMessageListener(view -> {
                String given = body(view) + " " + view.getDeliveryAttempt();
                seen.add(given);
                count.countDown();
                return fails.test(given) ? ConsumeResult.FAILURE : ConsumeResult.SUCCESS;
            }).build();
    }

    static void push(String topic) throws Exception {
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch count = new CountDownLatch(21);
        try (Producer by = producer(topic).build(); PushConsumer to = pushed(topic, seen, count, "07 1"::equals)) {
            for (int number = 0; number < 20; number++) {
                by.send(message(topic, String.format("%02d", number)).build());
            }
            count.await(PATIENT.getSeconds(), TimeUnit.SECONDS);
            Stream<String> once = IntStream.range(0, 20).mapToObj(number -> String.format("%02d 1", number));
            List<String> want = Stream.concat(once, Stream.of("07 2")).sorted().collect(Collectors.toList());
            equal(seen.stream().sorted().collect(Collectors.toList()), want);
        }
    }

    /** Fails each time; its group tries twice. The message is a dead letter when it would have come a third time. */
    static void dead(String topic) throws Exception {
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch count = new CountDownLatch(2);
        try (Producer by = producer(topic).build(); PushConsumer to = pushed(topic, seen, count, given -> true)) {
            by.send(message(topic, "poison").build());
            count.await(PATIENT.getSeconds(), TimeUnit.SECONDS);
            Thread.sleep(4_000);
            equal(seen, List.of("poison 1", "poison 2"));
        }
    }

    public static void main(String[] words) throws Exception {
        config = ClientConfiguration.newBuilder().setEndpoints(words[0]).enableSsl(false).setRequestTimeout(Duration.ofSeconds(10)).build();
        Map<String, Scene> scenes = Map.of(
            "normal", Scenes::normal, "fifo", Scenes::fifo, "delay", Scenes::delay, "recall", Scenes::recall,
            "transaction", Scenes::transaction, "change", Scenes::change, "push", Scenes::push, "dead", Scenes::dead);
        List<Thread> all = new ArrayList<>();
        for (String name : List.of(words).subList(2, words.length)) {
            Thread thread = new Thread(() -> {
                try {
                    scenes.get(name).play(words[1] + "_" + name);
                    System.out.println("ok " + name);
                } catch (Throwable error) {
                    System.out.println("not ok " + name + " " + error.toString().replace('\n', ' '));
                }
            });
            thread.start();
            all.add(thread);
        }
        for (Thread each : all) {
            each.join();
        }
        System.exit(0);
    }
}
