// grpcload drives a gRPC proxy of RocketMQ with the messages of the official Go client and as little work of its own as possible,
// so that what is measured is the proxy.
//
//	grpcload send    ADDR -conns 1 -window 64 -size 1024 -secs 8 -topic T   so many calls in flight on each connection, a message in each
//	grpcload receive ADDR -conns 4 -secs 60 -topic T                        receive 32 at a time, acknowledge them in one call, until it is empty
//	grpcload wait    ADDR -conns 1000 -topic T                              so many clients wait in receive on a connection each, until standard input ends
//
// Each prints one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"sort"
	"sync"
	"time"

	v2 "github.com/apache/rocketmq-clients/golang/v5/protocol/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	group     = "grpcload"
	queues    = 4
	batch     = 32
	invisible = 60 * time.Second
	polling   = 20 * time.Second
	patience  = 10 * time.Second // of a call that waits for nothing
)

type report struct {
	Mode     string  `json:"mode"`
	Conns    int     `json:"conns"`
	Messages int64   `json:"messages"`
	Refused  int64   `json:"refused"`
	PerSec   float64 `json:"per_second"`
	P50us    int64   `json:"p50_us,omitempty"`
	P99us    int64   `json:"p99_us,omitempty"`
}

// client is one of a name, on a connection of its own.
type client struct {
	v2.MessagingServiceClient
	about   context.Context
	address *v2.Endpoints
}

func connected(addr, name string) *client {
	conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	about := metadata.AppendToOutgoingContext(context.Background(), "x-mq-client-id", name, "x-mq-language", "GO", "x-mq-client-version", "5.1.0")
	address := &v2.Endpoints{Scheme: v2.AddressScheme_IPv4, Addresses: []*v2.Address{{Host: "127.0.0.1", Port: 8081}}}
	return &client{v2.NewMessagingServiceClient(conn), about, address}
}

// settle opens the stream of telemetry that Java's proxy wants of a client before it receives.
func (c *client) settle(topic string) {
	stream, err := c.Telemetry(c.about)
	check(err)
	kind := v2.ClientType_SIMPLE_CONSUMER
	subscription := &v2.Subscription{Group: resource(group), Subscriptions: []*v2.SubscriptionEntry{{Topic: resource(topic), Expression: everything()}}}
	settings := &v2.Settings{ClientType: &kind, AccessPoint: c.address, PubSub: &v2.Settings_Subscription{Subscription: subscription}}
	check(stream.Send(&v2.TelemetryCommand{Command: &v2.TelemetryCommand_Settings{Settings: settings}}))
	_, err = stream.Recv()
	check(err)
	go func() { // Settings are sent again, and commands ignored.
		for err == nil {
			_, err = stream.Recv()
		}
	}()
}

// receive returns the handles of what it was given, and whether that was refused otherwise than because there is nothing.
func (c *client) receive(topic string, queue int32) ([]*v2.AckMessageEntry, bool) {
	ctx, cancel := context.WithTimeout(c.about, polling+patience)
	defer cancel()
	auto := durationpb.New(invisible)
	stream, err := c.ReceiveMessage(ctx, &v2.ReceiveMessageRequest{
		Group: resource(group), BatchSize: batch, InvisibleDuration: auto, FilterExpression: everything(), LongPollingTimeout: durationpb.New(polling),
		MessageQueue: &v2.MessageQueue{Topic: resource(topic), Id: queue, Broker: &v2.Broker{Name: "broker-a", Endpoints: c.address}},
	})
	check(err)
	var found []*v2.AckMessageEntry
	for {
		part, err := stream.Recv()
		if err == io.EOF {
			return found, false
		}
		check(err)
		if status := part.GetStatus(); status != nil && status.Code != v2.Code_OK && status.Code != v2.Code_MESSAGE_NOT_FOUND {
			fmt.Fprintln(os.Stderr, status)
			return found, true
		}
		if message := part.GetMessage(); message != nil {
			system := message.SystemProperties
			found = append(found, &v2.AckMessageEntry{MessageId: system.MessageId, ReceiptHandle: system.GetReceiptHandle()})
		}
	}
}

func send(addr string, conns, window, size, secs int, topic string) report {
	body := make([]byte, size)
	var done report
	var took []int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := time.Now()
	for c := 0; c < conns; c++ {
		sender := connected(addr, fmt.Sprintf("sender-%d", c))
		for w := 0; w < window; w++ {
			wg.Add(1)
			go func(prefix string) {
				defer wg.Done()
				var mine []int64
				var refused int64
				for i := 0; time.Since(start) < time.Duration(secs)*time.Second; i++ {
					began := time.Now()
					if sender.send(topic, fmt.Sprintf("%s%08X", prefix, i), body) {
						mine = append(mine, time.Since(began).Nanoseconds())
					} else {
						refused++
					}
				}
				mu.Lock()
				took, done.Refused = append(took, mine...), done.Refused+refused
				mu.Unlock()
			}(fmt.Sprintf("01%012X%08X%02X", os.Getpid(), c, w))
		}
	}
	wg.Wait()
	done.Messages = int64(len(took))
	done.PerSec = float64(done.Messages) / time.Since(start).Seconds()
	if len(took) > 0 {
		sort.Slice(took, func(i, j int) bool { return took[i] < took[j] })
		done.P50us, done.P99us = took[len(took)/2]/1000, took[(len(took)-1)*99/100]/1000
	}
	return done
}

func (c *client) send(topic, id string, body []byte) bool {
	ctx, cancel := context.WithTimeout(c.about, patience)
	defer cancel()
	system := &v2.SystemProperties{MessageId: id, BodyEncoding: v2.Encoding_IDENTITY, MessageType: v2.MessageType_NORMAL}
	message := &v2.Message{Topic: resource(topic), SystemProperties: system, Body: body}
	answer, err := c.SendMessage(ctx, &v2.SendMessageRequest{Messages: []*v2.Message{message}})
	check(err)
	if code := answer.Status.Code; code != v2.Code_OK {
		fmt.Fprintln(os.Stderr, answer.Status)
		return false
	}
	return true
}

func receive(addr string, conns, secs int, topic string) report {
	var done report
	var mu sync.Mutex
	var wg sync.WaitGroup
	receivers := make([]*client, conns)
	for c := range receivers {
		receivers[c] = connected(addr, fmt.Sprintf("receiver-%d", c))
		receivers[c].settle(topic)
	}
	start, last := time.Now(), time.Now()
	for c := range receivers {
		wg.Add(1)
		go func(c int) {
			defer wg.Done()
			for i := 0; time.Since(start) < time.Duration(secs)*time.Second; i++ {
				found, isRefused := receivers[c].receive(topic, int32((c+i)%queues))
				refused := 0
				if isRefused {
					refused = 1
				} else if len(found) == 0 {
					return
				} else {
					refused = receivers[c].acknowledge(topic, found)
				}
				mu.Lock()
				done.Messages, done.Refused, last = done.Messages+int64(len(found)-refused), done.Refused+int64(refused), time.Now()
				mu.Unlock()
			}
		}(c)
	}
	wg.Wait()
	done.PerSec = float64(done.Messages) / last.Sub(start).Seconds() // The wait for more, at the end, is none of the work.
	return done
}

// acknowledge returns how many were refused.
func (c *client) acknowledge(topic string, found []*v2.AckMessageEntry) int {
	ctx, cancel := context.WithTimeout(c.about, patience)
	defer cancel()
	answer, err := c.AckMessage(ctx, &v2.AckMessageRequest{Group: resource(group), Topic: resource(topic), Entries: found})
	check(err)
	refused := 0
	for _, entry := range answer.Entries {
		if entry.Status.Code != v2.Code_OK {
			refused++
		}
	}
	if refused > 0 || len(answer.Entries) != len(found) {
		fmt.Fprintln(os.Stderr, answer.Status, len(answer.Entries), len(found))
		return len(found)
	}
	return 0
}

// wait says `ready` when each client has its settings and is about to wait.
func wait(addr string, conns int, topic string) report {
	start := time.Now()
	for c := 0; c < conns; c++ {
		waiting := connected(addr, fmt.Sprintf("waiting-%d", c))
		waiting.settle(topic)
		go func(c int) {
			for {
				waiting.receive(topic, int32(c%queues))
			}
		}(c)
	}
	took := time.Since(start)
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	return report{Messages: int64(conns), PerSec: float64(conns) / took.Seconds()}
}

func resource(name string) *v2.Resource { return &v2.Resource{Name: name} }

func everything() *v2.FilterExpression {
	return &v2.FilterExpression{Type: v2.FilterType_TAG, Expression: "*"}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: grpcload send|receive|wait ADDR [flags]")
		os.Exit(2)
	}
	mode, addr := os.Args[1], os.Args[2]
	f := flag.NewFlagSet(mode, flag.ExitOnError)
	conns := f.Int("conns", 1, "connections, a client on each")
	window := f.Int("window", 64, "calls in flight on each connection")
	size := f.Int("size", 1024, "body bytes")
	secs := f.Int("secs", 8, "seconds of load")
	topic := f.String("topic", "Yardstick", "topic, of 4 queues")
	f.Parse(os.Args[3:])
	var r report
	switch mode {
	case "send":
		r = send(addr, *conns, *window, *size, *secs, *topic)
	case "receive":
		r = receive(addr, *conns, *secs, *topic)
	case "wait":
		r = wait(addr, *conns, *topic)
	}
	r.Mode, r.Conns = mode, *conns
	out, _ := json.Marshal(r)
	fmt.Println(string(out))
}
