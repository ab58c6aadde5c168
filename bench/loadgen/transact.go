package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// transact keeps `window` half messages under way on each connection and commits each once it is stored; a message counts, and its
// time ends, when its commit was answered. It ends after so many messages, not counting the first window.
func transact(addr string, conns, window, size, secs int, topic string, queues int, messages int64, broker string) report {
	done := report{Conns: conns, Window: window, Size: size}
	var all []int64
	var begun int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	body := bytes.Repeat([]byte{'x'}, size)
	start := time.Now()
	end := start.Add(time.Duration(secs) * time.Second)
	for c := 0; c < conns; c++ {
		wg.Add(1)
		go func(c int) {
			defer wg.Done()
			conn, err := dial(addr)
			if err != nil {
				fail(err)
			}
			defer conn.Close()
			r, w, sign := bufio.NewReaderSize(conn, 1<<16), bufio.NewWriterSize(conn, 1<<16), newSigner()
			var buf []byte
			var mine []int64
			var count, refused int64
			began := make([]time.Time, window)
			half := func(slot int) { // Its number is even, that of its end odd.
				began[slot] = time.Now()
				header, own := kinds["half"](topic, (slot+c)%queues, c, 2*slot, broker, body)
				writeFrame(w, sign.signed(header, own), own)
			}
			for slot := 0; slot < window; slot++ {
				half(slot)
			}
			w.Flush()
			for underway := window; underway > 0; {
				h, _, err := readFrame(r, &buf)
				if err != nil {
					fail(err)
				}
				if field(h, "flag")&1 == 0 {
					continue // The broker asks for the state of an old transaction.
				}
				opaque := int(field(h, "opaque"))
				slot, isHalf, isGood := opaque/2, opaque%2 == 0, field(h, "code") == 0
				if isHalf && isGood {
					header := endOf(h, topic, opaque+1)
					writeFrame(w, sign.signed(header, nil), nil)
				} else {
					if isGood {
						count++
						mine = append(mine, time.Since(began[slot]).Nanoseconds())
					} else if refused++; refused == 1 {
						fmt.Fprintln(os.Stderr, string(h))
					}
					if time.Now().Before(end) && atomic.AddInt64(&begun, 1) <= messages {
						half(slot)
					} else {
						underway--
					}
				}
				if r.Buffered() == 0 {
					w.Flush()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, mine...)
			done.Messages += count
			done.Refused += refused
		}(c)
	}
	wg.Wait()
	done.PerSec = float64(done.Messages) / time.Since(start).Seconds()
	done.latencies(all)
	return done
}

// endOf commits (8) the half message whose send was answered so; the last 16 digits of its id are its place in the log.
func endOf(answer []byte, topic string, opaque int) []byte {
	id := text(answer, "msgId")
	at, err := strconv.ParseInt(id[len(id)-16:], 16, 64)
	if err != nil {
		fail(err)
	}
	return command(37, fmt.Sprintf(
		`{"commitLogOffset":"%d","commitOrRollback":"8","fromTransactionCheck":"false","msgId":"%s","producerGroup":"yardstick","topic":"%s","tranStateTableOffset":"%d","transactionId":"%s"}`,
		at, id, topic, field(answer, "queueOffset"), text(answer, "transactionId")), opaque)
}
