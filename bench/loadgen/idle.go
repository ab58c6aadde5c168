package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// idle opens so many connections, asks one thing on each, says `ready`, and holds them until its standard input ends.
func idle(addr string, conns int, topic, broker string) report {
	start := time.Now()
	opened := make([]net.Conn, conns)
	sign := newSigner()
	var buf []byte
	for c := range opened {
		conn, err := dial(addr)
		if err != nil {
			fail(err)
		}
		opened[c] = conn
		w := bufio.NewWriterSize(conn, 1<<12)
		pullRequest(w, sign, topic, 0, 0, everything, broker, c)
		if _, _, err := readFrame(bufio.NewReaderSize(conn, 1<<12), &buf); err != nil {
			fail(err)
		}
	}
	took := time.Since(start)
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
	for _, conn := range opened {
		conn.Close()
	}
	return report{Conns: conns, Messages: int64(conns), PerSec: float64(conns) / took.Seconds()}
}
