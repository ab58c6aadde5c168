// Scenes of the official Go client of RocketMQ 5: `scenes ADDRESS PREFIX SCENE...`. Each scene has the topic and the group PREFIX_SCENE. A
// line for each: "ok SCENE" or "not ok SCENE reason". tests/interop/test_grpc.py says what a scene must see.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	client "github.com/apache/rocketmq-clients/golang/v5"
	"github.com/apache/rocketmq-clients/golang/v5/credentials"
)

const (
	hidden  = time.Minute
	await   = 5 * time.Second
	patient = 40 * time.Second
)

var config = client.Config{Credentials: &credentials.SessionCredentials{}}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func equal(got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		panic(fmt.Sprintf("got %v, want %v", got, want))
	}
}

func producer(topic string, options ...client.ProducerOption) client.Producer {
	ours := config
	made, err := client.NewProducer(&ours, append(options, client.WithTopics(topic))...)
	check(err)
	check(made.Start())
	return made
}

func send(by client.Producer, topic, body string, change func(*client.Message)) {
	made := &client.Message{Topic: topic, Body: []byte(body)}
	if change != nil {
		change(made)
	}
	_, err := by.Send(context.Background(), made)
	check(err)
}

func consumer(topic string) client.SimpleConsumer {
	ours := config
	ours.ConsumerGroup = topic
	of := map[string]*client.FilterExpression{topic: client.SUB_ALL}
	made, err := client.NewSimpleConsumer(&ours, client.WithSimpleAwaitDuration(await), client.WithSimpleSubscriptionExpressions(of))
	check(err)
	check(made.Start())
	return made
}

// received acknowledges what it receives until there are so many bodies, or the time is over. A message may come twice.
func received(by client.SimpleConsumer, count int) (found []*client.MessageView) {
	seen := map[string]bool{}
	for end := time.Now().Add(patient); len(found) < count && time.Now().Before(end); {
		some, err := by.Receive(context.Background(), 32, hidden)
		if status, isStatus := client.AsErrRpcStatus(err); isStatus && status.GetCode() == 40401 {
			continue
		}
		check(err)
		for _, each := range some {
			check(by.Ack(context.Background(), each))
			if body := string(each.GetBody()); !seen[body] {
				seen[body] = true
				found = append(found, each)
			}
		}
	}
	return found
}

func bodies(found []*client.MessageView) (all []string) {
	for _, each := range found {
		all = append(all, string(each.GetBody()))
	}
	return all
}

func attempt(of *client.MessageView) int32 { return of.GetDeliveryAttempt() }

func normal(topic string) {
	by := producer(topic)
	defer by.GracefulStop()
	send(by, topic, "hello", func(made *client.Message) {
		made.SetTag("blue")
		made.SetKeys("k1", "k2")
		made.AddProperty("colour", "grün")
	})
	to := consumer(topic)
	defer to.GracefulStop()
	found := received(to, 1)
	equal(bodies(found), []string{"hello"})
	equal([]any{*found[0].GetTag(), found[0].GetKeys(), found[0].GetProperties()}, []any{"blue", []string{"k1", "k2"}, map[string]string{"colour": "grün"}})
	_, err := to.Receive(context.Background(), 32, hidden)
	status, _ := client.AsErrRpcStatus(err)
	equal(status.GetCode(), 40401)
}

func fifo(topic string) {
	by := producer(topic)
	defer by.GracefulStop()
	for number := 0; number < 6; number++ {
		send(by, topic, fmt.Sprint(number), func(made *client.Message) { made.SetMessageGroup("one") })
	}
	to := consumer(topic)
	defer to.GracefulStop()
	equal(bodies(received(to, 6)), []string{"0", "1", "2", "3", "4", "5"})
}

func delay(topic string) {
	by := producer(topic)
	defer by.GracefulStop()
	due := time.Now().Add(3 * time.Second)
	send(by, topic, "later", func(made *client.Message) { made.SetDelayTimestamp(due) })
	to := consumer(topic)
	defer to.GracefulStop()
	equal(bodies(received(to, 1)), []string{"later"})
	// RocketMQ delivers up to a second early.
	equal(time.Now().After(due.Add(-time.Second)), true)
}

func transaction(topic string) {
	var asked []string
	checker := &client.TransactionChecker{Check: func(view *client.MessageView) client.TransactionResolution {
		asked = append(asked, string(view.GetBody()))
		if string(view.GetBody()) == "rolled back" { // A server asks early where a machine is slow.
			return client.ROLLBACK
		}
		return client.COMMIT
	}}
	by := producer(topic, client.WithTransactionChecker(checker))
	defer by.GracefulStop()
	for _, body := range []string{"committed", "rolled back", "orphaned"} {
		begun := by.BeginTransaction()
		_, err := by.SendWithTransaction(context.Background(), &client.Message{Topic: topic, Body: []byte(body)}, begun)
		check(err)
		switch body {
		case "committed":
			check(begun.Commit())
		case "rolled back":
			check(begun.RollBack())
		}
	}
	to := consumer(topic)
	defer to.GracefulStop()
	found := bodies(received(to, 2))
	sort.Strings(found)
	equal(found, []string{"committed", "orphaned"})
	equal(slices.Contains(asked, "orphaned"), true)
}

func change(topic string) {
	by := producer(topic)
	defer by.GracefulStop()
	send(by, topic, "once more", nil)
	to := consumer(topic)
	defer to.GracefulStop()
	first, err := to.Receive(context.Background(), 1, 30*time.Second)
	check(err)
	check(to.ChangeInvisibleDuration(first[0], time.Second))
	again := received(to, 1)
	equal(bodies(again), []string{"once more"})
	equal(attempt(again[0]), 2)
}

// box keeps what a push consumer was given, as body and attempt.
type box struct {
	sync.Mutex
	seen []string
}

func (b *box) wait(count int) []string {
	for end := time.Now().Add(patient); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		b.Lock()
		if len(b.seen) >= count {
			defer b.Unlock()
			return append([]string(nil), b.seen...)
		}
		b.Unlock()
	}
	panic(fmt.Sprintf("not %d: %v", count, b.seen))
}

func pushed(topic string, into *box, fails func(body string, attempt int32) bool) client.PushConsumer {
	ours := config
	ours.ConsumerGroup = topic
	listener := &client.FuncMessageListener{Consume: func(view *client.MessageView) client.ConsumerResult {
		into.Lock()
		defer into.Unlock()
		body := string(view.GetBody())
		into.seen = append(into.seen, fmt.Sprint(body, " ", attempt(view)))
		if fails(body, attempt(view)) {
			return client.FAILURE
		}
		return client.SUCCESS
	}}
	of := map[string]*client.FilterExpression{topic: client.SUB_ALL}
	made, err := client.NewPushConsumer(&ours, client.WithPushAwaitDuration(await), client.WithPushSubscriptionExpressions(of), client.WithPushMessageListener(listener))
	check(err)
	check(made.Start())
	return made
}

func push(topic string) {
	var into box
	by := producer(topic)
	defer by.GracefulStop()
	for number := 0; number < 20; number++ {
		send(by, topic, fmt.Sprintf("%02d", number), nil)
	}
	to := pushed(topic, &into, func(body string, attempt int32) bool { return body == "07" && attempt == 1 })
	defer to.GracefulStop()
	seen := into.wait(21)
	sort.Strings(seen)
	want := []string{"07 2"}
	for number := 0; number < 20; number++ {
		want = append(want, fmt.Sprintf("%02d 1", number))
	}
	sort.Strings(want)
	equal(seen, want)
}

// dead fails each time; its group tries twice. The message is a dead letter when it would have come a third time.
func dead(topic string) {
	var into box
	by := producer(topic)
	defer by.GracefulStop()
	send(by, topic, "poison", nil)
	to := pushed(topic, &into, func(string, int32) bool { return true })
	defer to.GracefulStop()
	into.wait(2)
	time.Sleep(4 * time.Second)
	equal(strings.Join(into.wait(2), ", "), "poison 1, poison 2")
}

func main() {
	config.Endpoint = os.Args[1]
	client.EnableSsl = false
	client.ResetLogger()
	scenes := map[string]func(string){
		"normal": normal, "fifo": fifo, "delay": delay, "transaction": transaction, "change": change, "push": push, "dead": dead,
	}
	var all sync.WaitGroup
	for _, name := range os.Args[3:] {
		scene := scenes[name]
		all.Add(1)
		go func(name string, scene func(string)) {
			defer all.Done()
			defer func() {
				if reason := recover(); reason != nil {
					fmt.Printf("not ok %s %v\n", name, strings.ReplaceAll(fmt.Sprint(reason), "\n", " "))
				}
			}()
			scene(os.Args[2] + "_" + name)
			fmt.Printf("ok %s\n", name)
		}(name, scene)
	}
	all.Wait()
}
