package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// pop takes up to 32 messages of any queue on each connection and acknowledges each with a request of its own, all of them
// in flight at once; it ends when the topic is empty or the time is over. A message counts when its
// acknowledgement is answered.
func pop(addr string, conns, secs int, topic, filter, broker string) report {
	var messages, refused int64
	var all []int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	start := time.Now()
	end := start.Add(time.Duration(secs) * time.Second)
	for c := 0; c < conns; c++ {
		conn, err := dial(addr)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer conn.Close()
			r, w := bufio.NewReaderSize(conn, 1<<20), bufio.NewWriterSize(conn, 1<<16)
			var buf []byte
			var mine []int64
			for empty := 0; empty < 20 && time.Now().Before(end); {
				t := time.Now()
				popRequest(w, topic, filter, broker)
				h, _, err := readFrame(r, &buf)
				if err != nil {
					break
				}
				if field(h, "code") != 0 {
					empty++
					time.Sleep(5 * time.Millisecond)
					continue
				}
				empty = 0
				n := ackRequests(w, h, topic, broker)
				for i := 0; i < n; i++ {
					h, _, err := readFrame(r, &buf)
					if err != nil {
						return
					}
					if field(h, "code") != 0 {
						if atomic.AddInt64(&refused, 1) == 1 {
							fmt.Fprintln(os.Stderr, string(h))
						}
						continue
					}
					atomic.AddInt64(&messages, 1)
				}
				mine = append(mine, time.Since(t).Nanoseconds())
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		}()
	}
	wg.Wait()
	el := time.Since(start).Seconds()
	r := report{Conns: conns, Messages: messages, Refused: refused, PerSec: float64(messages) / el}
	r.latencies(all)
	return r
}

func popRequest(w *bufio.Writer, topic, filter, broker string) {
	kind, expression, _ := strings.Cut(filter, ":")
	writeFrame(w, []byte(fmt.Sprintf(
		`{"code":200050,"extFields":{"consumerGroup":"popstick","topic":"%s","queueId":"-1","maxMsgNums":"32","invisibleTime":"60000","pollTime":"0","bornTime":"0","initMode":"0","expType":"%s","exp":"%s","order":"false","bname":"%s"},"flag":0,"language":"JAVA","opaque":1,"serializeTypeCurrentRPC":"JSON","version":479}`,
		topic, kind, expression, broker)), nil)
	w.Flush()
}

// ackRequests acknowledges each message that an answer names, and says how many there are.
func ackRequests(w *bufio.Writer, h []byte, topic, broker string) int {
	popTime, invisible, revive := field(h, "popTime"), field(h, "invisibleTime"), field(h, "reviveQid")
	starts := map[string]string{}
	for _, part := range strings.Split(text(h, "startOffsetInfo"), ";") {
		words := strings.Split(part, " ")
		starts[words[0]+" "+words[1]] = words[2]
	}
	n := 0
	for _, part := range strings.Split(text(h, "msgOffsetInfo"), ";") {
		words := strings.Split(part, " ")
		kind, queue := words[0], words[1]
		for _, offset := range strings.Split(words[2], ",") {
			writeFrame(w, []byte(fmt.Sprintf(
				`{"code":200051,"extFields":{"consumerGroup":"popstick","topic":"%s","queueId":"%s","extraInfo":"%s %d %d %d %s %s %s %s","offset":"%s","bname":"%s"},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}`,
				topic, queue, starts[kind+" "+queue], popTime, invisible, revive, kind, broker, queue, offset, offset, broker, n)), nil)
			n++
		}
	}
	w.Flush()
	return n
}

// text finds the text after `"name":"` in a JSON header.
func text(header []byte, name string) string {
	key := []byte(`"` + name + `":"`)
	i := bytes.Index(header, key)
	if i < 0 {
		return ""
	}
	rest := header[i+len(key):]
	return string(rest[:bytes.IndexByte(rest, '"')])
}
