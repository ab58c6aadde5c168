// loadgen drives a broker over the remoting protocol with as little client work as possible, so
// that what is measured is the broker. It speaks the JSON header, as every official client does.
//
//	loadgen floor :PORT                                          answer each frame at once, keep nothing; a pull gets 32 records of zeros
//	loadgen send  ADDR -conns 4 -window 256 -size 128 -secs 8 -topic T -queues 4 [-topics 1000] [-keys]
//	              [-messages N] [-ready N]                       and end after N requests, if that is sooner
//	              [-tags 10]                                     give message i the tag t(i%10), and the property a the value i%10
//	              [-kind max|heartbeat|...]                      requests of this kind (kinds.go, old.go) in place of plain sends
//	loadgen lone  ADDR -size 128 -secs 8 -topic T -queues 4      one at a time, by a thread that waits in read
//	loadgen back  ADDR -conns 2000 -secs 60 -topic T -queues 4   each connects until it can, and sends one until it is stored
//	loadgen pull  ADDR -conns 4 -secs 8 -topic T -queues 4       read each queue from its start, again and again
//	              [-filter "SQL92:a = 1"]                        count the messages that a filter looks at
//	loadgen transact ADDR -conns 4 -window 64 -secs 8 -topic T   half messages, each committed once it is stored
//	loadgen fan   ADDR -conns 50 -rate 500 -secs 8 -topic T      so many groups wait for each message; count what they get
//	loadgen count ADDR -topic T -queues 4                        read each queue once, to its end
//	loadgen idle  ADDR -conns 5000 -topic T                      ask one thing on each connection, and hold them until standard input ends
//	loadgen pop   ADDR -conns 4 -secs 8 -topic T                 pop 32 at a time, acknowledge each, until it is empty
//
// With -tls all but floor, back and pop talk over TLS 1.3, with -user and -secret they sign.
// All but floor print one line of JSON; count fails where a queue has a gap. `floor` is the limit that this machine and this generator
// set: no broker can be faster than a server that parses no header and stores nothing.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
)

type report struct {
	Mode     string  `json:"mode"`
	Conns    int     `json:"conns"`
	Window   int     `json:"window,omitempty"`
	Size     int     `json:"size,omitempty"`
	Messages int64   `json:"messages"`
	Refused  int64   `json:"refused"`
	PerSec   float64 `json:"per_second"`
	MBPerSec float64 `json:"mb_per_second,omitempty"`
	P50us    int64   `json:"p50_us,omitempty"`
	P99us    int64   `json:"p99_us,omitempty"`
	P999us   int64   `json:"p999_us,omitempty"`
	MaxUs    int64   `json:"max_us,omitempty"`
	LastMs   float64 `json:"last_ms,omitempty"`
}

func (r *report) latencies(ns []int64) {
	if len(ns) == 0 {
		return
	}
	sort.Slice(ns, func(i, j int) bool { return ns[i] < ns[j] })
	at := func(q float64) int64 { return ns[int(float64(len(ns)-1)*q)] / 1000 }
	r.P50us, r.P99us, r.P999us, r.MaxUs = at(.5), at(.99), at(.999), at(1)
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: loadgen floor|send|lone|back|pull|transact|fan|count|pop|idle ADDR [flags]")
		os.Exit(2)
	}
	mode, addr := os.Args[1], os.Args[2]
	f := flag.NewFlagSet(mode, flag.ExitOnError)
	conns := f.Int("conns", 4, "connections")
	window := f.Int("window", 256, "requests in flight on each connection")
	size := f.Int("size", 128, "body bytes")
	secs := f.Int("secs", 8, "seconds of load")
	topic := f.String("topic", "Yardstick", "topic")
	queues := f.Int("queues", 4, "queues of the topic")
	topics := f.Int("topics", 1, "send over so many topics in turn: T0, T1, …")
	messages := f.Int64("messages", 1<<62, "end after so many requests")
	keys := f.Bool("keys", false, "give each message a key of its own")
	tags := f.Int("tags", 0, "give the messages so many tags, and values of the property a, in turn")
	kind := f.String("kind", "", "send requests of this kind in place of plain sends: max, heartbeat, lock, delay, timer, half, key, nokey, view, time, refuse")
	filter := f.String("filter", everything, "of pulls and pops, as KIND:EXPRESSION")
	rate := f.Int("rate", 500, "messages a second that groups wait for")
	broker := f.String("broker", "broker-a", "broker name put in the request")
	ready := f.Int("ready", 0, "send so many requests again and again, made before the time begins")
	f.BoolVar(&link.tls, "tls", false, "over TLS 1.3")
	f.StringVar(&link.user, "user", "", "sign as this user")
	f.StringVar(&link.secret, "secret", "", "with this secret key")
	f.Parse(os.Args[3:])
	var r report
	switch mode {
	case "floor":
		floor(addr)
	case "send":
		r = send(addr, *conns, *window, *size, *secs, *topic, *topics, *queues, *messages, *keys, *tags, *kind, *ready, *broker)
	case "lone":
		r = lone(addr, *size, *secs, *topic, *queues, *broker)
	case "back":
		r = back(addr, *conns, *secs, *size, *topic, *queues, *broker)
	case "pull":
		r = pull(addr, *conns, *secs, *topic, *queues, *filter, *broker)
	case "transact":
		r = transact(addr, *conns, *window, *size, *secs, *topic, *queues, *messages, *broker)
	case "fan":
		r = fan(addr, *conns, *rate, *size, *secs, *topic, *queues, *broker)
	case "count":
		r = count(addr, *topic, *queues, *broker)
	case "idle":
		r = idle(addr, *conns, *topic, *broker)
	case "pop":
		r = pop(addr, *conns, *secs, *topic, *filter, *broker)
	}
	r.Mode = mode
	out, _ := json.Marshal(r)
	fmt.Println(string(out))
}
