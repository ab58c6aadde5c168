package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// fan sends `rate` messages a second to a topic that each of `groups` groups reads by a held pull of each queue, all on one
// connection. It counts what the groups got, and how long each message took to get there. The body begins with the time.
func fan(addr string, groups, rate, size, secs int, topic string, queues int, broker string) report {
	r := report{Conns: groups, Size: size}
	var all []int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	var over atomic.Bool
	sender, err := dial(addr)
	if err != nil {
		fail(err)
	}
	defer sender.Close()
	answers, w, sign := bufio.NewReaderSize(sender, 1<<16), bufio.NewWriterSize(sender, 1<<16), newSigner()
	body := bytes.Repeat([]byte{'x'}, size)
	put := func(i int) {
		now := time.Now()
		binary.BigEndian.PutUint64(body, uint64(now.UnixNano()))
		writeFrame(w, sign.signed(sendHeader(topic, i%queues, now, "", 0, 0, i, broker), body), body)
		w.Flush()
	}
	var buf []byte
	first := make([]int64, queues)
	for q := 0; q < queues; q++ { // The queues are there before anybody waits.
		put(q)
		h, _, err := readFrame(answers, &buf)
		if err != nil {
			fail(err)
		}
		if field(h, "code") != 0 {
			fmt.Fprintln(os.Stderr, string(h))
			r.Refused++
		}
		first[q] = field(h, "queueOffset")
	}
	for g := 0; g < groups; g++ {
		wg.Add(1)
		go func(group string) {
			defer wg.Done()
			mine := follow(addr, group, topic, first, broker, &over)
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
		}(fmt.Sprintf("g%d", g))
	}
	time.Sleep(time.Second)
	go func() {
		for {
			if _, _, err := readFrame(answers, &buf); err != nil {
				return
			}
		}
	}()
	start := time.Now()
	for i := 0; time.Since(start) < time.Duration(secs)*time.Second; i++ {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		time.Sleep(time.Until(due))
		put(i)
	}
	elapsed := time.Since(start).Seconds()
	over.Store(true)
	for q := 0; q < queues; q++ { // Wakes all of them a last time.
		put(q)
	}
	wg.Wait()
	r.Messages = int64(len(all))
	r.PerSec = float64(len(all)) / elapsed
	r.latencies(all)
	return r
}

// follow pulls each queue from its first message on, as a group's consumer does, until all are over; how long each message but
// the first took, ns.
func follow(addr, group, topic string, first []int64, broker string, over *atomic.Bool) []int64 {
	conn, err := dial(addr)
	if err != nil {
		fail(err)
	}
	defer conn.Close()
	r, w, sign := bufio.NewReaderSize(conn, 1<<16), bufio.NewWriter(conn), newSigner()
	// sysFlag 6: the broker holds the pull, which carries its own subscription.
	ask := func(queue int, offset int64) {
		writeFrame(w, sign.signed([]byte(fmt.Sprintf(
			`{"code":11,"extFields":{"consumerGroup":"%s","topic":"%s","queueId":"%d","queueOffset":"%d","maxMsgNums":"32","sysFlag":"6","commitOffset":"0","suspendTimeoutMillis":"15000","subscription":"*","subVersion":"0","expressionType":"TAG","bname":"%s"},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}`,
			group, topic, queue, offset, broker, queue)), nil), nil)
		w.Flush()
	}
	for q, offset := range first {
		ask(q, offset)
	}
	var buf []byte
	var took []int64
	for waiting := len(first); waiting > 0; {
		h, body, err := readFrame(r, &buf)
		if err != nil {
			fail(err)
		}
		now, queue := time.Now().UnixNano(), int(field(h, "opaque"))
		for len(body) >= 100 {
			if int64(binary.BigEndian.Uint64(body[20:])) > first[queue] {
				took = append(took, now-int64(binary.BigEndian.Uint64(body[88:])))
			}
			body = body[binary.BigEndian.Uint32(body):]
		}
		if over.Load() {
			waiting--
			continue
		}
		ask(queue, field(h, "nextBeginOffset"))
	}
	return took
}
