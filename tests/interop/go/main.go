// Scenarios on the official Go client, against the nameserver in NAMESRV: one line for each,
// "ok NAME detail" or "not ok NAME reason". They expect a broker that makes topics and groups on first use.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

var (
	names    = primitive.NamesrvAddr{os.Getenv("NAMESRV")}
	run      = strconv.FormatInt(time.Now().UnixNano(), 36)
	counter  = 0
	numbered sync.Mutex
)

func fresh(base string) string {
	numbered.Lock()
	defer numbered.Unlock()
	counter++
	return fmt.Sprintf("Go_%s_%s_%d", base, run, counter)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(got, want any, what string) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		panic(fmt.Errorf("%s: got %v, want %v", what, got, want))
	}
}

func wait(what string, limit time.Duration, done func() bool) {
	for end := time.Now().Add(limit); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			panic(fmt.Errorf("%s: not within %v", what, limit))
		}
	}
}

// box keeps what a consumer was given.
type box struct {
	sync.Mutex
	messages []*primitive.MessageExt
	times    []time.Time
}

func (b *box) listen(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	b.Lock()
	defer b.Unlock()
	for _, message := range messages {
		b.messages = append(b.messages, message)
		b.times = append(b.times, time.Now())
	}
	return consumer.ConsumeSuccess, nil
}

func (b *box) count() int {
	b.Lock()
	defer b.Unlock()
	return len(b.messages)
}

func (b *box) bodies() []string {
	b.Lock()
	defer b.Unlock()
	var bodies []string
	for _, message := range b.messages {
		bodies = append(bodies, string(message.Body))
	}
	return bodies
}

func (b *box) sorted() []string {
	bodies := b.bodies()
	sort.Strings(bodies)
	return bodies
}

func newProducer(options ...producer.Option) rocketmq.Producer {
	given := []producer.Option{producer.WithNameServer(names), producer.WithRetry(2),
		producer.WithGroupName(fresh("P")), producer.WithInstanceName(fresh("i"))}
	p, err := rocketmq.NewProducer(append(given, options...)...)
	check(err)
	check(p.Start())
	return p
}

// push starts a consumer with `listen`; the returned function ends it.
func push(topic string, selector consumer.MessageSelector, listen func(context.Context, ...*primitive.MessageExt) (consumer.ConsumeResult, error), options ...consumer.Option) func() {
	given := []consumer.Option{consumer.WithNameServer(names), consumer.WithGroupName(fresh("C")),
		consumer.WithInstance(fresh("i")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset)}
	c, err := rocketmq.NewPushConsumer(append(given, options...)...)
	check(err)
	check(c.Subscribe(topic, selector, listen))
	check(c.Start())
	return func() { _ = c.Shutdown() }
}

func all() consumer.MessageSelector { return consumer.MessageSelector{} }

func send(p rocketmq.Producer, message *primitive.Message) *primitive.SendResult {
	result, err := p.SendSync(context.Background(), message)
	check(err)
	equal(result.Status, primitive.SendOK, "status")
	return result
}

func series(prefix string, count int) []string {
	var made []string
	for i := 0; i < count; i++ {
		made = append(made, fmt.Sprintf("%s%03d", prefix, i))
	}
	return made
}

func sendSync() string {
	topic, p := fresh("sync"), newProducer()
	defer p.Shutdown()
	ids := map[string]bool{}
	for _, body := range series("s", 12) {
		message := primitive.NewMessage(topic, []byte(body)).WithTag("T").WithKeys([]string{"k1", "k2"})
		message.WithProperty("color", "blau ü")
		result := send(p, message)
		ids[result.MsgID] = true
		equal(result.MessageQueue.Topic, topic, "topic")
	}
	equal(len(ids), 12, "ids")
	b := &box{}
	defer push(topic, all(), b.listen)()
	wait("12 messages", 30*time.Second, func() bool { return b.count() >= 12 })
	equal(b.sorted(), series("s", 12), "bodies")
	m := b.messages[0]
	equal([]string{m.GetTags(), m.GetKeys(), m.GetProperty("color")}, []string{"T", "k1 k2", "blau ü"}, "properties")
	return "12"
}

func sendAsync() string {
	topic, p := fresh("async"), newProducer()
	defer p.Shutdown()
	var waiting sync.WaitGroup
	failures := make(chan error, 30)
	for _, body := range series("a", 30) {
		waiting.Add(1)
		check(p.SendAsync(context.Background(), func(_ context.Context, result *primitive.SendResult, err error) {
			if err != nil || result.Status != primitive.SendOK {
				failures <- fmt.Errorf("%v %v", result, err)
			}
			waiting.Done()
		}, primitive.NewMessage(topic, []byte(body))))
	}
	waiting.Wait()
	equal(len(failures), 0, "failures")
	b := &box{}
	defer push(topic, all(), b.listen)()
	wait("30 messages", 30*time.Second, func() bool { return b.count() >= 30 })
	equal(b.sorted(), series("a", 30), "bodies")
	return "30"
}

func sendOneWay() string {
	topic, p := fresh("oneway"), newProducer()
	defer p.Shutdown()
	send(p, primitive.NewMessage(topic, []byte("o000"))) // This client makes no topic by a one-way send.
	for _, body := range series("o", 20)[1:] {
		check(p.SendOneWay(context.Background(), primitive.NewMessage(topic, []byte(body))))
	}
	b := &box{}
	defer push(topic, all(), b.listen)()
	wait("20 messages", 30*time.Second, func() bool { return b.count() >= 20 })
	equal(b.sorted(), series("o", 20), "bodies")
	return "20"
}

func sendBatch() string {
	topic, p := fresh("batch"), newProducer()
	defer p.Shutdown()
	var messages []*primitive.Message
	for _, body := range series("b", 10) {
		messages = append(messages, primitive.NewMessage(topic, []byte(body)))
	}
	result, err := p.SendSync(context.Background(), messages...)
	check(err)
	equal(result.Status, primitive.SendOK, "status")
	b := &box{}
	defer push(topic, all(), b.listen)()
	wait("10 messages", 30*time.Second, func() bool { return b.count() >= 10 })
	equal(b.sorted(), series("b", 10), "bodies")
	return strconv.Itoa(len(strings.Split(result.OffsetMsgID, ","))) + " ids"
}

func compressedBody() string {
	topic, p := fresh("zip"), newProducer(producer.WithCompressMsgBodyOverHowmuch(1024))
	defer p.Shutdown()
	body := strings.Repeat("squeeze me ", 3000)
	send(p, primitive.NewMessage(topic, []byte(body)))
	b := &box{}
	defer push(topic, all(), b.listen)()
	wait("the message", 30*time.Second, func() bool { return b.count() == 1 })
	equal(b.bodies()[0], body, "body")
	return fmt.Sprintf("stored %d of %d", b.messages[0].StoreSize, len(body))
}

func pushConcurrent() string {
	topic, p := fresh("push"), newProducer()
	defer p.Shutdown()
	send(p, primitive.NewMessage(topic, []byte("first")))
	b := &box{}
	defer push(topic, all(), b.listen)()
	wait("the first", 30*time.Second, func() bool { return b.count() == 1 })
	for _, body := range series("p", 200) {
		send(p, primitive.NewMessage(topic, []byte(body)))
	}
	wait("201 messages", 30*time.Second, func() bool { return b.count() >= 201 })
	time.Sleep(300 * time.Millisecond)
	equal(b.sorted()[1:], series("p", 200), "each once")
	return "200"
}

func tagFilter() string {
	topic, p := fresh("tag"), newProducer()
	defer p.Shutdown()
	for i := 0; i < 15; i++ {
		send(p, primitive.NewMessage(topic, []byte(fmt.Sprint(i))).WithTag("Tag"+string("ABC"[i%3])))
	}
	b := &box{}
	defer push(topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "TagA || TagC"}, b.listen)()
	wait("10 messages", 30*time.Second, func() bool { return b.count() >= 10 })
	time.Sleep(300 * time.Millisecond)
	equal(b.count(), 10, "messages")
	for _, message := range b.messages {
		if message.GetTags() == "TagB" {
			panic(errors.New("TagB came, too"))
		}
	}
	return "10 of 15"
}

func sqlFilter() string {
	topic, p := fresh("sql"), newProducer()
	defer p.Shutdown()
	for i := 0; i < 20; i++ {
		message := primitive.NewMessage(topic, []byte(fmt.Sprint(i)))
		message.WithProperty("a", fmt.Sprint(i))
		message.WithProperty("color", map[bool]string{true: "red", false: "blue"}[i%4 == 0])
		send(p, message)
	}
	b := &box{}
	defer push(topic, consumer.MessageSelector{Type: consumer.SQL92, Expression: "a > 5 AND color = 'red'"}, b.listen)()
	wait("3 messages", 30*time.Second, func() bool { return b.count() >= 3 })
	time.Sleep(300 * time.Millisecond)
	equal(b.sorted(), []string{"12", "16", "8"}, "bodies")
	return "3 of 20"
}

func broadcast() string {
	topic, group, p := fresh("broadcast"), fresh("C"), newProducer()
	defer p.Shutdown()
	send(p, primitive.NewMessage(topic, []byte("b000")))
	boxes := []*box{{}, {}}
	for _, b := range boxes {
		defer push(topic, all(), b.listen, consumer.WithGroupName(group), consumer.WithConsumerModel(consumer.BroadCasting))()
	}
	for _, body := range series("b", 10)[1:] {
		send(p, primitive.NewMessage(topic, []byte(body)))
	}
	for _, b := range boxes {
		wait("10 messages for each", 40*time.Second, func() bool { return b.count() >= 10 })
		equal(b.sorted(), series("b", 10), "bodies")
	}
	return "2 members, 10 each"
}

func pull() string {
	topic, p := fresh("pull"), newProducer()
	defer p.Shutdown()
	for _, body := range series("u", 10) {
		send(p, primitive.NewMessage(topic, []byte(body)))
	}
	c, err := rocketmq.NewPullConsumer(consumer.WithNameServer(names), consumer.WithGroupName(fresh("C")),
		consumer.WithInstance(fresh("i")), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	check(err)
	check(c.Subscribe(topic, all()))
	check(c.Start())
	defer c.Shutdown()
	var bodies []string
	wait("10 messages", 40*time.Second, func() bool {
		request, err := c.Poll(context.Background(), 500*time.Millisecond)
		if err != nil {
			return false
		}
		for _, message := range request.GetMsgList() {
			bodies = append(bodies, string(message.Body))
		}
		c.ACK(context.Background(), request, consumer.ConsumeSuccess)
		return len(bodies) >= 10
	})
	sort.Strings(bodies)
	equal(bodies, series("u", 10), "bodies")
	return "10 polled"
}

func retry() string {
	topic, p := fresh("retry"), newProducer()
	defer p.Shutdown()
	send(p, primitive.NewMessage(topic, []byte("first")))
	// A first member makes the retry topic; who starts before it would see it at its next poll, 30 s later.
	group, warm := fresh("C"), &box{}
	first := push(topic, all(), warm.listen, consumer.WithGroupName(group))
	wait("the first", 30*time.Second, func() bool { return warm.count() == 1 })
	first()
	sent := send(p, primitive.NewMessage(topic, []byte("again")))
	b := &box{}
	listen := func(ctx context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		concurrent, _ := primitive.GetConcurrentlyCtx(ctx)
		concurrent.DelayLevelWhenNextConsume = 1
		if string(messages[0].Body) == "first" {
			return consumer.ConsumeSuccess, nil // Its offset may not have been saved.
		}
		_, _ = b.listen(ctx, messages...)
		if messages[0].ReconsumeTimes == 0 {
			return consumer.ConsumeRetryLater, nil
		}
		return consumer.ConsumeSuccess, nil
	}
	defer push(topic, all(), listen, consumer.WithGroupName(group))()
	wait("it twice", 40*time.Second, func() bool { return b.count() >= 2 })
	again := b.messages[1]
	equal(again.ReconsumeTimes, 1, "tries")
	equal([]string{again.MsgId, again.Topic, string(again.Body)}, []string{sent.MsgID, topic, "again"}, "the message")
	return b.times[1].Sub(b.times[0]).Round(time.Millisecond).String()
}

func order() string {
	topic, group := fresh("order"), fresh("C")
	p := newProducer(producer.WithQueueSelector(producer.NewHashQueueSelector()))
	defer p.Shutdown()
	b := &box{}
	for i := 0; i < 20; i++ {
		for key := 0; key < 8; key++ {
			message := primitive.NewMessage(topic, []byte(fmt.Sprintf("%d:%02d", key, i)))
			send(p, message.WithShardingKey(fmt.Sprint("key", key)))
		}
	}
	defer push(topic, all(), b.listen, consumer.WithGroupName(group), consumer.WithConsumerOrder(true))()
	wait("160 messages", 60*time.Second, func() bool { return b.count() >= 160 })
	next := map[string]int{}
	for _, body := range b.bodies() {
		key, number, _ := strings.Cut(body, ":")
		equal(number, fmt.Sprintf("%02d", next[key]), "next of key "+key)
		next[key]++
	}
	return "8 keys, 20 each"
}

func delay() string {
	topic, p := fresh("delay"), newProducer()
	defer p.Shutdown()
	b := &box{}
	send(p, primitive.NewMessage(topic, []byte("now")))
	defer push(topic, all(), b.listen)()
	wait("the first", 30*time.Second, func() bool { return b.count() == 1 })
	began := time.Now()
	send(p, primitive.NewMessage(topic, []byte("later")).WithDelayTimeLevel(2))
	wait("the delayed one", 30*time.Second, func() bool { return b.count() == 2 })
	took := b.times[1].Sub(began)
	if took < 4900*time.Millisecond || took > 9*time.Second {
		panic(fmt.Errorf("level 2 (5 s) took %v", took))
	}
	return took.Round(time.Millisecond).String()
}

type settles struct{}

func (settles) ExecuteLocalTransaction(message *primitive.Message) primitive.LocalTransactionState {
	switch string(message.Body) {
	case "commit":
		return primitive.CommitMessageState
	case "rollback":
		return primitive.RollbackMessageState
	}
	return primitive.UnknowState
}

func (settles) CheckLocalTransaction(message *primitive.MessageExt) primitive.LocalTransactionState {
	return primitive.CommitMessageState
}

func transaction() string {
	topic := fresh("tx")
	p, err := rocketmq.NewTransactionProducer(settles{}, producer.WithNameServer(names),
		producer.WithRetry(2), producer.WithGroupName(fresh("P")), producer.WithInstanceName(fresh("i")))
	check(err)
	check(p.Start())
	defer p.Shutdown()
	for _, body := range []string{"commit", "rollback", "check me"} {
		result, err := p.SendMessageInTransaction(context.Background(), primitive.NewMessage(topic, []byte(body)))
		check(err)
		equal(result.Status, primitive.SendOK, "status")
	}
	b := &box{}
	defer push(topic, all(), b.listen)()
	wait("the committed and the checked", 60*time.Second, func() bool { return b.count() >= 2 })
	time.Sleep(500 * time.Millisecond)
	equal(b.sorted(), []string{"check me", "commit"}, "bodies")
	return "committed and checked back"
}

func main() {
	rlog.SetLogLevel("fatal")
	scenarios := map[string]func() string{
		"send_sync": sendSync, "send_async": sendAsync, "send_oneway": sendOneWay, "send_batch": sendBatch,
		"compressed_body": compressedBody, "push_concurrent": pushConcurrent, "tag_filter": tagFilter,
		"sql_filter": sqlFilter, "broadcast": broadcast, "pull": pull, "retry": retry, "order": order,
		"delay": delay, "transaction": transaction,
	}
	wanted := os.Args[1:]
	if len(wanted) == 0 {
		for name := range scenarios {
			wanted = append(wanted, name)
		}
	}
	var waiting sync.WaitGroup
	var printing sync.Mutex
	failed := false
	for _, name := range wanted {
		name := name // Before Go 1.22 all rounds share one.
		waiting.Add(1)
		go func() {
			defer waiting.Done()
			line := "not ok " + name + " no such scenario"
			began := time.Now()
			func() {
				defer func() {
					if trouble := recover(); trouble != nil {
						line = fmt.Sprintf("not ok %s %v", name, trouble)
					}
				}()
				if scenario, ok := scenarios[name]; ok {
					line = "ok " + name + " " + scenario()
				}
			}()
			printing.Lock()
			defer printing.Unlock()
			failed = failed || strings.HasPrefix(line, "not ok")
			fmt.Printf("%s (%.1fs)\n", strings.ReplaceAll(line, "\n", " "), time.Since(began).Seconds())
		}()
	}
	waiting.Wait()
	if failed {
		os.Exit(1)
	}
}
