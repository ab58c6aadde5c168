package admin;

import java.io.ByteArrayOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.Permission;
import java.util.*;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Many commands of mqadmin in one JVM: a line of the file for each, its words parted by tabs, the first how many seconds it may take.
 * What a command prints stands behind a line "$ NUMBER". Lines that begin with "!" are deeds of this program.
 */
public class Session {
    static final PrintStream OUT = System.out;
    static final Map<String, String> NAMES = new HashMap<>();
    static volatile boolean done;
    static DefaultMQProducer producer;
    static DefaultMQPushConsumer consumer;

    static AclClientRPCHook hook() {
        return new AclClientRPCHook(new SessionCredentials(System.getenv("ACCESS_KEY"), System.getenv("SECRET_KEY")));
    }

    /** Some commands end the process; here they end themselves. */
    @SuppressWarnings("removal")
    static void forbidExit() {
        System.setSecurityManager(new SecurityManager() {
            @Override public void checkPermission(Permission permission) { }
            @Override public void checkPermission(Permission permission, Object context) { }
            @Override public void checkExit(int status) { if (!done) throw new SecurityException("exit " + status); }
        });
    }

    static void send(String topic, int count) throws Exception {
        if (producer == null) {
            producer = new DefaultMQProducer("writers", hook());
            producer.setInstanceName("writer"); producer.setSendMsgTimeout(20000); producer.start();
        }
        MessageQueueSelector chosen = (queues, message, at) -> { Collections.sort(queues); return queues.get((Integer) at % queues.size()); };
        for (int i = 0; i < count; i++) {
            Message message = new Message(topic, "tag" + i % 2, "key" + i, ("body " + i).getBytes(StandardCharsets.UTF_8));
            var sent = producer.send(message, chosen, i);
            NAMES.put("{ID" + i + "}", sent.getMsgId());
            NAMES.put("{OFFSETID" + i + "}", sent.getOffsetMsgId());
        }
    }

    static DefaultMQPushConsumer started(String group, String topic, AtomicInteger got) throws Exception {
        var made = new DefaultMQPushConsumer(group, hook(), new AllocateMessageQueueAveragely());
        made.setInstanceName("reader"); made.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        made.subscribe(topic, "*");
        made.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            got.addAndGet(messages.size());
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        made.start();
        return made;
    }

    static void await(AtomicInteger got, int count) throws Exception {
        for (int i = 0; i < 6000 && got.get() < count; i++) Thread.sleep(10);
        if (got.get() < count) System.out.println("not consumed");
    }

    static void consume(String topic, int count) throws Exception {
        var got = new AtomicInteger();
        consumer = started("readers", topic, got);
        await(got, count);
        persisted();
    }

    static void persisted() throws Exception {
        Thread.sleep(1000); // What was consumed leaves its queue a moment later.
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        Thread.sleep(500);
    }

    /** A load that brokers have counted when this returns: they look at their counters each 10 s, and what was there at the first look does not count. */
    static void load(String topic, int count) throws Exception {
        var got = new AtomicInteger();
        producer = null;
        send(topic, 1);
        consumer = started("counters", topic, got);
        await(got, 1);
        persisted(); // A rate of ours is of committed offsets, and a client commits its first after 10 s.
        Thread.sleep(11_000);
        send(topic, count);
        await(got, 1 + count);
        Thread.sleep(11_000);
        persisted();
    }

    static void deed(String[] words) throws Exception {
        switch (words[0]) {
            case "!send": send(words[1], Integer.parseInt(words[2])); break;
            case "!consume": consume(words[1], Integer.parseInt(words[2])); break;
            case "!load": load(words[1], Integer.parseInt(words[2])); break;
            case "!commands":
                MQAdminStartup.main0(new String[0], null);
                break;
            case "!heartbeat":
                consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
                producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
                break;
            case "!stop": consumer.shutdown(); producer.shutdown(); Thread.sleep(500); break;
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    /** What prints is kept by thread, with the threads that it starts: a command goes on for some seconds when it has said everything. */
    static final InheritableThreadLocal<ByteArrayOutputStream> SAID = new InheritableThreadLocal<>();

    static class ByThread extends java.io.OutputStream {
        @Override public void write(int b) { var said = SAID.get(); if (said != null) said.write(b); }
        @Override public void write(byte[] b, int from, int count) { var said = SAID.get(); if (said != null) said.write(b, from, count); }
    }

    /** Whether a command has come to the end of its client, which waits up to 3 s for a thread of its own. */
    static boolean isClosing(Thread thread) {
        return Arrays.stream(thread.getStackTrace()).anyMatch(
            each -> each.getClassName().endsWith("NettyRemotingClient") && each.getMethodName().equals("shutdown"));
    }

    record Run(Thread thread, ByteArrayOutputStream said, long milliseconds) { }

    static Run run(int seconds, String[] words) throws Exception {
        var bytes = new ByteArrayOutputStream();
        var print = new PrintStream(bytes, true, "UTF-8");
        long began = System.nanoTime();
        Thread thread = new Thread(() -> {
            SAID.set(bytes);
            try {
                if (words[0].startsWith("!")) deed(words); else MQAdminStartup.main0(words, null);
            } catch (SecurityException e) {
                System.out.println(e.getMessage());
            } catch (Throwable e) {
                e.printStackTrace();
            }
        });
        thread.setDaemon(true);
        thread.start();
        long end = System.nanoTime() + seconds * 1_000_000_000L;
        boolean isDeed = words[0].startsWith("!");
        while (thread.isAlive() && System.nanoTime() < end && (isDeed || !isClosing(thread))) thread.join(10);
        if (thread.isAlive() && System.nanoTime() >= end) {
            thread.interrupt();
            print.println("stopped");
        }
        return new Run(thread, bytes, (System.nanoTime() - began) / 1_000_000);
    }

    public static void main(String[] args) throws Exception {
        forbidExit();
        var byThread = new PrintStream(new ByThread(), true, "UTF-8");
        System.setOut(byThread); System.setErr(byThread);
        var runs = new ArrayList<Run>();
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            for (var name : NAMES.entrySet()) line = line.replace(name.getKey(), name.getValue());
            String[] words = line.split("\t");
            runs.add(run(Integer.parseInt(words[0]), Arrays.copyOfRange(words, 1, words.length)));
        }
        for (Run each : runs) {
            each.thread().join(4000);
            OUT.println("$ " + each.milliseconds() + "\n" + each.said().toString("UTF-8"));
        }
        OUT.flush();
        done = true;
        Runtime.getRuntime().halt(0);
    }
}
