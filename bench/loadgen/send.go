package main

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const slots = 1 << 20 // send times of the last million requests of a connection, by opaque

func send(addr string, conns, window, size, secs int, topic string, topics, queues int, messages int64, keys bool, tags int, kind string, ready int, broker string) report {
	var ok, refused, sent int64
	var all []int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	body := bytes.Repeat([]byte{'x'}, size)
	opened := make([]net.Conn, conns)
	for c := range opened {
		conn, err := dial(addr)
		if err != nil {
			fail(err)
		}
		opened[c] = conn
	}
	made := make([][]prepared, conns)
	for c := range made {
		made[c] = prepare(ready, topic, queues, c, broker, newSigner(), body)
	}
	if old[kind] {
		places = firstRecords(addr, topic, queues, broker)
	}
	start := time.Now()
	end := start.Add(time.Duration(secs) * time.Second)
	for c := range opened {
		conn := opened[c]
		inFlight := make(chan struct{}, window)
		sentAt := make([]int64, slots)
		wg.Add(2)
		go func() { // answers
			defer wg.Done()
			r := bufio.NewReaderSize(conn, 1<<16)
			var buf []byte
			var mine []int64
			for {
				h, _, err := readFrame(r, &buf)
				if err != nil {
					break
				}
				if field(h, "flag")&1 == 0 {
					continue // A request of the broker: a group's members have changed.
				}
				if code := field(h, "code"); code == 0 || code == queryNotFound && kind == "nokey" {
					atomic.AddInt64(&ok, 1)
				} else if atomic.AddInt64(&refused, 1) == 1 {
					fmt.Fprintln(os.Stderr, string(h))
				}
				if op := field(h, "opaque"); op&7 == 0 {
					mine = append(mine, time.Now().UnixNano()-sentAt[op&(slots-1)])
				}
				<-inFlight
			}
			mu.Lock()
			all = append(all, mine...)
			mu.Unlock()
		}()
		go func(c int, mine []prepared) { // requests
			defer wg.Done()
			w, sign := bufio.NewWriterSize(conn, 1<<16), newSigner()
			var room []byte
			for i := 0; time.Now().Before(end) && atomic.AddInt64(&sent, 1) <= messages; i++ {
				select {
				case inFlight <- struct{}{}:
				default:
					w.Flush()
					inFlight <- struct{}{}
				}
				now := time.Now()
				sentAt[i&(slots-1)] = now.UnixNano()
				if ready > 0 {
					room = mine[i%ready].numbered(i, room)
					writeFrame(w, room, body)
					continue
				}
				if of := kinds[kind]; of != nil {
					header, own := of(topic, (i+c)%queues, c, i, broker, body)
					writeFrame(w, sign.signed(header, own), own)
					continue
				}
				name, key := topic, ""
				if topics > 1 {
					name += strconv.Itoa((i/queues*conns + c) % topics)
				}
				if tags > 0 {
					key = fmt.Sprintf(`TAGS\u0001t%d\u0002a\u0001%d\u0002`, i%tags, i%tags)
				}
				if keys {
					key += fmt.Sprintf(`KEYS\u0001key-%d-%d\u0002`, c, i)
				}
				writeFrame(w, sign.signed(sendHeader(name, (i+c)%queues, now, key, 0, c, i, broker), body), body)
			}
			w.Flush()
			for wait := time.Now(); len(inFlight) > 0 && time.Since(wait) < 5*time.Second; {
				time.Sleep(time.Millisecond)
			}
			conn.Close()
		}(c, made[c])
	}
	wg.Wait()
	r := report{Conns: conns, Window: window, Size: size, Messages: ok, Refused: refused, PerSec: float64(ok) / time.Since(start).Seconds()}
	r.MBPerSec = r.PerSec * float64(size) / 1e6
	r.latencies(all)
	return r
}

// sendHeader is that of a SEND_MESSAGE_V2 of the official client: request i of connection c. Properties end with \u0002.
func sendHeader(topic string, queue int, now time.Time, properties string, sysFlag, c, i int, broker string) []byte {
	return []byte(fmt.Sprintf(
		`{"code":310,"extFields":{"a":"yardstick","b":"%s","c":"TBW102","d":"8","e":"%d","f":"%d","g":"%d","h":"0","i":"%sUNIQ_KEY\u00017F000001%08X18B4AAC2%08X\u0002WAIT\u0001true\u0002","j":"0","k":"false","m":"false","n":"%s"},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}`,
		topic, queue, sysFlag, now.UnixMilli(), properties, c, i, broker, i))
}
