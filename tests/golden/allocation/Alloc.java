import java.util.*;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.rebalance.*;
import org.apache.rocketmq.common.message.MessageQueue;
public class Alloc {
  public static void main(String[] a) {
    String[] brokers = {"hz@broker-a", "hz@broker-b", "sh@broker-c"};
    int[][] shapes = {{1,1},{4,2},{8,3},{16,5},{3,7}};
    StringBuilder out = new StringBuilder("[\n");
    AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom(); room.setConsumeridcs(new HashSet<>(List.of("hz")));
    AllocateMachineRoomNearby near = new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), new AllocateMachineRoomNearby.MachineRoomResolver() {
      public String brokerDeployIn(MessageQueue q) { return q.getBrokerName().split("@")[0]; }
      public String consumerDeployIn(String c) { return c.split("@")[0]; } });
    Map<String, AllocateMessageQueueStrategy> all = new LinkedHashMap<>();
    all.put("average", new AllocateMessageQueueAveragely()); all.put("circle", new AllocateMessageQueueAveragelyByCircle()); all.put("consistent_hash", new AllocateMessageQueueConsistentHash()); all.put("consistent_hash_40", new AllocateMessageQueueConsistentHash(40)); all.put("machine_room", room); all.put("nearby_room", near);
    boolean first = true;
    for (int[] s : shapes) {
      List<MessageQueue> qs = new ArrayList<>(); for (String b : brokers) for (int i = 0; i < s[0]; i++) qs.add(new MessageQueue("orders", b, i)); Collections.sort(qs);
      List<String> cs = new ArrayList<>(); for (int i = 0; i < s[1]; i++) cs.add((i % 3 == 2 ? "bj" : "hz") + "@10.0.0." + i + "#" + Integer.toHexString(i * 7919)); Collections.sort(cs);
      for (var e : all.entrySet()) for (String c : cs) {
        List<String> got = new ArrayList<>(); for (MessageQueue q : e.getValue().allocate("g", c, qs, cs)) got.add("\"" + q.getBrokerName() + ":" + q.getQueueId() + "\"");
        out.append(first ? "" : ",\n").append("{\"how\":\"" + e.getKey() + "\",\"queues\":" + s[0] + ",\"members\":" + s[1] + ",\"own\":\"" + c + "\",\"share\":" + got + "}"); first = false; }
    }
    System.out.println(out.append("\n]"));
  }
}
