import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * The official client at the end of a pipe: what our side sends, it reads, and the other way round.
 *
 *   Peer send NAMESERVER TOPIC                 a message for each line of JSON on standard input
 *   Peer read NAMESERVER TOPIC COUNT SECONDS   from the first offset on; a line of JSON for each message
 *   Peer members NAMESERVER KIND:TOPIC:GROUP…  a member of each group, KIND push, ordered or pop, until a line of
 *                                              standard input says "leave KIND"; the messages name their KIND as member
 *   Peer stream NAMESERVER TOPIC…              a producer for each topic, whose messages have numbers, until standard input
 *                                              ends; for each its topic and body, and broker, queueId and queueOffset, or error
 *
 * The property peer.poll is the pollNameServerInterval of members and streams, ms.
 *
 * A message: {"body": base64, "tags": text, "keys": text, "properties": {…}}; read adds queueId, queueOffset, msgId.
 */
public class Peer {
    static final int POLL_MS = Integer.getInteger("peer.poll", 30_000);

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("send")) send(arguments[1], arguments[2]);
        else if (arguments[0].equals("members")) members(arguments);
        else if (arguments[0].equals("stream")) stream(arguments);
        else read(arguments[1], arguments[2], Integer.parseInt(arguments[3]), Long.parseLong(arguments[4]));
        System.exit(0);
    }

    static void send(String nameserver, String topic) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("peer_producer");
        producer.setNamesrvAddr(nameserver);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = lines.readLine()) != null; ) {
            JSONObject given = JSON.parseObject(line);
            Message message = new Message(topic, given.getString("tags"), given.getString("keys"), Base64.getDecoder().decode(given.getString("body")));
            JSONObject properties = given.getJSONObject("properties");
            if (properties != null) for (String key : properties.keySet()) message.putUserProperty(key, properties.getString(key));
            SendResult result = producer.send(message);
            JSONObject said = new JSONObject();
            said.put("status", result.getSendStatus().name());
            said.put("msgId", result.getMsgId());
            said.put("queueId", result.getMessageQueue().getQueueId());
            said.put("queueOffset", result.getQueueOffset());
            System.out.println("PEER " + said);
        }
        producer.shutdown();
    }

    static void read(String nameserver, String topic, int count, long seconds) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer("peer_consumer_" + System.nanoTime());
        consumer.setNamesrvAddr(nameserver);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.setConsumeMessageBatchMaxSize(32);
        CountDownLatch left = new CountDownLatch(count);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            StringBuilder lines = new StringBuilder();
            for (MessageExt message : messages) lines.append("PEER ").append(described(message)).append('\n');
            synchronized (System.out) { System.out.print(lines); }
            for (MessageExt ignored : messages) left.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        left.await(seconds, TimeUnit.SECONDS);
        consumer.shutdown();
        System.out.flush();
    }

    static void members(String[] arguments) throws Exception {
        Map<String, DefaultMQPushConsumer> members = new HashMap<>();
        for (String member : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] parts = member.split(":");
            DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(parts[2]);
            consumer.setInstanceName(parts[0]);
            consumer.setPollNameServerInterval(POLL_MS);
            consumer.setNamesrvAddr(arguments[1]);
            consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
            if (parts[0].equals("pop")) {
                // 4.9 has no pop. What a member had popped when it left comes again after this time.
                consumer.getClass().getMethod("setClientRebalance", boolean.class).invoke(consumer, false);
                consumer.getClass().getMethod("setPopInvisibleTime", long.class).invoke(consumer, 5000L);
            }
            consumer.setAwaitTerminationMillisWhenShutdown(5000);
            consumer.subscribe(parts[1], "*");
            if (parts[0].equals("ordered")) consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                tell(parts[0], messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
            else consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                tell(parts[0], messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            members.put(parts[0], consumer);
        }
        System.out.println("PEER {\"member\": \"all\"}");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line; (line = lines.readLine()) != null; ) {
            members.remove(line.split(" ")[1]).shutdown();
            System.out.println("PEER {\"member\": \"left\"}");
        }
        for (DefaultMQPushConsumer consumer : members.values()) consumer.shutdown();
    }

    static void stream(String[] arguments) throws Exception {
        AtomicBoolean isOver = new AtomicBoolean();
        List<Thread> threads = new ArrayList<>();
        for (String topic : Arrays.asList(arguments).subList(2, arguments.length)) {
            DefaultMQProducer producer = new DefaultMQProducer("peer_stream_" + topic);
            producer.setInstanceName(topic);
            producer.setNamesrvAddr(arguments[1]);
            producer.setPollNameServerInterval(POLL_MS);
            producer.setSendMsgTimeout(10_000);
            producer.start();
            Thread thread = new Thread(() -> {
                for (int number = 0; !isOver.get(); number++) {
                    JSONObject said = new JSONObject();
                    said.put("topic", topic);
                    String body = ProcessHandle.current().pid() + "-" + number;
                    said.put("body", body);
                    try {
                        SendResult result = producer.send(new Message(topic, body.getBytes()));
                        said.put("queueId", result.getMessageQueue().getQueueId());
                        said.put("broker", result.getMessageQueue().getBrokerName());
                        said.put("queueOffset", result.getQueueOffset());
                        Thread.sleep(10);
                    } catch (Exception error) {
                        said.put("error", error.toString());
                    }
                    synchronized (System.out) { System.out.println("PEER " + said); System.out.flush(); }
                }
                producer.shutdown();
            });
            thread.start();
            threads.add(thread);
        }
        while (System.in.read() >= 0) { }
        isOver.set(true);
        for (Thread thread : threads) thread.join();
    }

    static void tell(String member, List<MessageExt> messages) {
        StringBuilder lines = new StringBuilder();
        for (MessageExt message : messages) {
            JSONObject said = described(message);
            said.put("member", member);
            lines.append("PEER ").append(said).append('\n');
        }
        synchronized (System.out) { System.out.print(lines); System.out.flush(); }
    }

    static JSONObject described(MessageExt message) {
        JSONObject said = new JSONObject();
        said.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        said.put("tags", message.getTags());
        said.put("keys", message.getKeys());
        said.put("queueId", message.getQueueId());
        said.put("queueOffset", message.getQueueOffset());
        said.put("msgId", message.getMsgId());
        JSONObject properties = new JSONObject();
        for (Map.Entry<String, String> entry : message.getProperties().entrySet()) properties.put(entry.getKey(), entry.getValue());
        said.put("properties", properties);
        return said;
    }
}
