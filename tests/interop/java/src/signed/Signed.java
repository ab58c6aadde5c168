package signed;

import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.*;

/** An official client that signs: what it may do works, what it may not is refused. A line for each, "name=what came". */
public class Signed {
    static final String NS = System.getenv("NAMESRV");

    static byte[] b(String s) { return s.getBytes(StandardCharsets.UTF_8); }

    static AclClientRPCHook hook() {
        return new AclClientRPCHook(new SessionCredentials(System.getenv("ACCESS_KEY"), System.getenv("SECRET_KEY")));
    }

    interface Work { Object run() throws Exception; }

    static void say(String name, Work work) {
        Object came;
        try {
            came = work.run();
        } catch (Throwable e) {
            Throwable t = e;
            while (t != null && !(t instanceof MQBrokerException)) t = t.getCause();
            came = t == null ? e.getClass().getSimpleName() + " " + e.getMessage() : "code " + ((MQBrokerException) t).getResponseCode() + " " + ((MQBrokerException) t).getErrorMessage();
        }
        System.out.println(name + "=" + String.valueOf(came).replace('\n', ' '));
    }

    /** How many messages a push consumer was given, whether the committed one is among them, and whether it popped them all. */
    static String consumed(String group, boolean pops, long patience) throws Exception {
        Set<String> got = ConcurrentHashMap.newKeySet();
        Set<Boolean> popped = ConcurrentHashMap.newKeySet();
        DefaultMQPushConsumer c = new DefaultMQPushConsumer(group, hook(), new AllocateMessageQueueAveragely());
        // 4.9 has no pop.
        if (pops) DefaultMQPushConsumer.class.getMethod("setClientRebalance", boolean.class).invoke(c, false);
        c.setNamesrvAddr(NS); c.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET); c.subscribe("orders", "*");
        c.registerMessageListener((MessageListenerConcurrently) (ms, ctx) -> {
            for (MessageExt m : ms) { popped.add(m.getProperty("POP_CK") != null); got.add(new String(m.getBody(), StandardCharsets.UTF_8)); }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        c.start();
        try {
            long end = System.currentTimeMillis() + patience;
            while (got.size() < 13 && System.currentTimeMillis() < end) Thread.sleep(50);
        } finally {
            c.shutdown();
        }
        return got.size() + " " + got.contains("committed") + (pops ? " " + popped : "");
    }

    public static void main(String[] args) throws Exception {
        DefaultMQProducer p = new DefaultMQProducer("senders", hook());
        p.setNamesrvAddr(NS); p.setRetryTimesWhenSendFailed(0); p.setSendMsgTimeout(8000); p.start();
        final SendResult[] last = new SendResult[1];
        say("send", () -> { for (int i = 0; i < 10; i++) last[0] = p.send(new Message("orders", "tag", "k" + i, b("m" + i))); return last[0].getSendStatus(); });
        say("batch", () -> p.send(Arrays.asList(new Message("orders", b("b0")), new Message("orders", b("b1")))).getSendStatus());
        say("byUniqueKey", () -> new String(p.viewMessage("orders", last[0].getMsgId()).getBody(), StandardCharsets.UTF_8));
        say("byKey", () -> p.queryMessage("orders", "k3", 8, 0, Long.MAX_VALUE).getMessageList().size());
        say("secret", () -> p.send(new Message("secret", b("x"))).getSendStatus());
        say("secretBatch", () -> p.send(Arrays.asList(new Message("secret", b("x")), new Message("secret", b("y")))).getSendStatus());
        TransactionMQProducer tx = new TransactionMQProducer("halves", hook());
        tx.setNamesrvAddr(NS); tx.setSendMsgTimeout(8000);
        tx.setTransactionListener(new TransactionListener() {
            public LocalTransactionState executeLocalTransaction(Message m, Object o) { return LocalTransactionState.COMMIT_MESSAGE; }
            public LocalTransactionState checkLocalTransaction(MessageExt m) { return LocalTransactionState.UNKNOW; }
        });
        tx.start();
        say("transaction", () -> tx.sendMessageInTransaction(new Message("orders", b("committed")), null).getLocalTransactionState());
        // Who has sent nothing waits for nothing.
        long patience = last[0] == null ? 4000 : 25000;
        say("consumed", () -> consumed("readers", false, patience));
        say("popped", () -> consumed("poppers", true, patience));
        say("stranger", () -> consumed("strangers", false, 3000));
        tx.shutdown(); p.shutdown();
        System.exit(0);
    }
}
