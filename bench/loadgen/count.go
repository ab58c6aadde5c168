package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const pullFound, pullRetry, pullOffsetMoved = 0, 20, 21

// count reads every queue once, from its start to its end, and insists that queue offsets are dense.
func count(addr string, topic string, queues int, broker string) report {
	var messages int64
	var wg sync.WaitGroup
	start := time.Now()
	for q := 0; q < queues; q++ {
		wg.Add(1)
		go func(q int) {
			defer wg.Done()
			conn, err := dial(addr)
			if err != nil {
				fatal(err)
			}
			defer conn.Close()
			r, w := bufio.NewReaderSize(conn, 1<<20), bufio.NewWriter(conn)
			var buf []byte
			sign, expected := newSigner(), int64(0)
			defer func() { atomic.AddInt64(&messages, expected) }()
			for i := 0; ; i++ {
				pullRequest(w, sign, topic, q, expected, everything, broker, i)
				h, body, err := readFrame(r, &buf)
				if err != nil {
					fatal(err)
				}
				if code := field(h, "code"); code != pullFound {
					if code == pullOffsetMoved && expected != 0 {
						fatal(fmt.Errorf("queue %d: offset %d is beyond what the broker holds: %s", q, expected, h))
					}
					return
				}
				// A record: total size 4 | magic 4 | body CRC 4 | queue id 4 | flag 4 | queue offset 8 | …
				for len(body) >= 28 {
					if got := int64(binary.BigEndian.Uint64(body[20:])); got != expected {
						fatal(fmt.Errorf("queue %d: offset %d follows %d", q, got, expected-1))
					}
					expected++
					body = body[binary.BigEndian.Uint32(body):]
				}
			}
		}(q)
	}
	wg.Wait()
	return report{Conns: queues, Messages: messages, PerSec: float64(messages) / time.Since(start).Seconds()}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
