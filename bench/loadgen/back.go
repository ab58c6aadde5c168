package main

import (
	"bufio"
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	backPause  = 200 * time.Millisecond // before somebody who found no broker, or was refused, tries again
	backAnswer = 5 * time.Second
)

// back is many clients whose broker comes back: each connects until somebody listens, sends one message, and sends it
// again until it is stored. The latencies are from the begin until then.
func back(addr string, conns, secs, size int, topic string, queues int, broker string) report {
	body := bytes.Repeat([]byte{'x'}, size)
	start := time.Now()
	end := start.Add(time.Duration(secs) * time.Second)
	took := make([]int64, conns)
	var wg sync.WaitGroup
	for c := 0; c < conns; c++ {
		wg.Add(1)
		go func(c int) {
			defer wg.Done()
			// As clients are: not all at the same moment.
			time.Sleep(backPause * time.Duration(c) / time.Duration(conns))
			for time.Now().Before(end) {
				if stored(addr, sendHeader(topic, c%queues, time.Now(), "", 0, c, 0, broker), body) {
					took[c] = time.Since(start).Nanoseconds()
					return
				}
				time.Sleep(backPause)
			}
		}(c)
	}
	wg.Wait()
	done := report{Conns: conns, Window: 1, Size: size}
	var last int64
	var served []int64
	for _, ns := range took {
		if ns == 0 {
			done.Refused++
			continue
		}
		served = append(served, ns)
		last = max(last, ns)
	}
	done.Messages = int64(len(served))
	done.PerSec = float64(done.Messages) * 1e9 / float64(max(last, 1))
	done.LastMs = float64(last) / 1e6
	done.latencies(served)
	return done
}

// stored sends one message over a connection of its own, and tells whether that was answered with success.
func stored(addr string, header, body []byte) bool {
	conn, err := net.DialTimeout("tcp", addr, backAnswer)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(backAnswer))
	w := bufio.NewWriterSize(conn, 1<<12)
	writeFrame(w, header, body)
	w.Flush()
	var buf []byte
	h, _, err := readFrame(bufio.NewReaderSize(conn, 1<<12), &buf)
	return err == nil && field(h, "code") == 0
}
