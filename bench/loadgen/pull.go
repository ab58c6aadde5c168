package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// pull reads queue c%queues on connection c, 32 messages a request, and starts again at its end.
//
// By one thread: a second one would look for work on the core of the broker whenever a goroutine waits.
func pull(addr string, conns, secs int, topic string, queues int, broker string) report {
	runtime.GOMAXPROCS(1)
	var messages, bytes, refused int64
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
		go func(c int) {
			defer wg.Done()
			defer conn.Close()
			r, w := bufio.NewReaderSize(conn, 1<<20), bufio.NewWriter(conn)
			var buf []byte
			var mine []int64
			var count, size int64
			sign := newSigner()
			offset := int64(0)
			for i := 0; time.Now().Before(end); i++ {
				t := time.Now()
				pullRequest(w, sign, topic, c%queues, offset, broker, i)
				h, body, err := readFrame(r, &buf)
				if err != nil {
					break
				}
				mine = append(mine, time.Since(t).Nanoseconds())
				if field(h, "code") != 0 {
					if offset == 0 && atomic.AddInt64(&refused, 1) == 1 {
						fmt.Fprintln(os.Stderr, string(h))
					}
					offset = 0
					continue
				}
				size += int64(len(body))
				for len(body) >= 4 {
					n := binary.BigEndian.Uint32(body)
					if n == 0 || int(n) > len(body) {
						break
					}
					body = body[n:]
					count++
				}
				offset = field(h, "nextBeginOffset")
			}
			mu.Lock()
			all = append(all, mine...)
			messages += count
			bytes += size
			mu.Unlock()
		}(c)
	}
	wg.Wait()
	el := time.Since(start).Seconds()
	r := report{Conns: conns, Messages: messages, Refused: refused, PerSec: float64(messages) / el, MBPerSec: float64(bytes) / el / 1e6}
	r.latencies(all)
	return r
}

// pullRequest asks for 32 messages. sysFlag 4: the request carries its own subscription; the broker does not wait.
func pullRequest(w *bufio.Writer, sign *signer, topic string, queue int, offset int64, broker string, opaque int) {
	header := []byte(fmt.Sprintf(
		`{"code":11,"extFields":{"consumerGroup":"yardstick","topic":"%s","queueId":"%d","queueOffset":"%d","maxMsgNums":"32","sysFlag":"4","commitOffset":"0","suspendTimeoutMillis":"0","subscription":"*","subVersion":"0","expressionType":"TAG","bname":"%s"},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}`,
		topic, queue, offset, broker, opaque))
	writeFrame(w, sign.signed(header, nil), nil)
	w.Flush()
}
