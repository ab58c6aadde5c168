package admin;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.Permission;
import java.util.*;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.acl.common.AclUtils;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.MessageQueueSelector;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Many commands of mqadmin in one JVM: a line of standard input for each, parted by tabs: how many seconds it may take, the folder
 * whose conf/tools.yml says who signs, and its words. What a command prints stands behind a line "$ MILLISECONDS BYTES".
 * Words that begin with "!" are deeds of this program.
 */
public class Session {
    static final PrintStream OUT = System.out;
    static final Map<String, String> NAMES = new HashMap<>();
    static volatile boolean done;
    static volatile String home;
    static DefaultMQProducer producer;
    static DefaultMQPushConsumer consumer;

    static RPCHook hook() {
        return AclUtils.getAclRPCHook(home + "/conf/tools.yml");
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
            case "!forget": forgetCommands(); break;
            case "!heartbeat":
                consumer.getDefaultMQPushConsumerImpl().getmQClientFactory().sendHeartbeatToAllBrokerWithLock();
                producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
                break;
            case "!stop": consumer.shutdown(); producer.shutdown(); Thread.sleep(500); break;
            default: throw new IllegalArgumentException(words[0]);
        }
    }

    /** What prints is kept by thread, with the threads that it starts: some go on behind the end of their command. */
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

    static void joinCommand(Thread thread, int seconds) throws Exception {
        for (long end = System.nanoTime() + seconds * 1_000_000_000L; thread.isAlive() && System.nanoTime() < end; ) {
            thread.join(10);
            if (isClosing(thread)) thread.interrupt();
        }
    }

    /** Commands are kept for the next time, and some keep a client that they have closed. */
    static void forgetCommands() throws Exception {
        for (var field : MQAdminStartup.class.getDeclaredFields()) {
            if (!List.class.isAssignableFrom(field.getType())) continue;
            field.setAccessible(true);
            ((List<?>) field.get(null)).clear();
        }
    }

    static void run(int seconds, String[] words) throws Exception {
        var said = new ByteArrayOutputStream();
        long began = System.nanoTime();
        Thread thread = new Thread(() -> {
            SAID.set(said);
            try {
                if (words[0].startsWith("!")) deed(words); else MQAdminStartup.main0(words, hook());
            } catch (SecurityException e) {
                System.out.println(e.getMessage());
            } catch (Throwable e) {
                e.printStackTrace();
            }
        });
        thread.setDaemon(true);
        thread.start();
        if (words[0].startsWith("!")) thread.join(seconds * 1000L); else joinCommand(thread, seconds);
        long milliseconds = (System.nanoTime() - began) / 1_000_000;
        if (thread.isAlive()) {
            new PrintStream(said, true, "UTF-8").println("stopped");
            thread.interrupt();
            joinCommand(thread, 4);
        }
        byte[] bytes = said.toByteArray();
        OUT.println("$ " + milliseconds + " " + bytes.length);
        OUT.write(bytes);
        OUT.flush();
    }

    public static void main(String[] args) throws Exception {
        forbidExit();
        var byThread = new PrintStream(new ByThread(), true, "UTF-8");
        System.setOut(byThread); System.setErr(byThread);
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = lines.readLine()) != null; ) {
            for (var name : NAMES.entrySet()) line = line.replace(name.getKey(), name.getValue());
            String[] words = line.split("\t");
            home = words[1];
            run(Integer.parseInt(words[0]), Arrays.copyOfRange(words, 2, words.length));
        }
        done = true;
        Runtime.getRuntime().halt(0);
    }
}
