package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const everything = "TAG:*" // The filter of a consumer that wants all messages.

// pull reads queue c%queues on connection c, 32 messages a request, and starts again at its end. With a filter the messages that
// the broker looked at count, and not those that it sent.
//
// By one thread that waits for all of them in epoll_wait(2): a second one would look for work on the core of the broker, and
// where a goroutine waits, Go's scheduler asks the system twice more for each answer.
func pull(addr string, conns, secs int, topic string, queues int, filter, broker string) report {
	runtime.LockOSThread()
	ready, err := syscall.EpollCreate1(0)
	if err != nil {
		fail(err)
	}
	pullers := make([]*puller, conns)
	for c := range pullers {
		pullers[c] = newPuller(addr, topic, c%queues, filter, broker)
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(c)}
		if err := syscall.EpollCtl(ready, syscall.EPOLL_CTL_ADD, int(pullers[c].socket), &event); err != nil {
			fail(err)
		}
	}
	start := time.Now()
	end := start.Add(time.Duration(secs) * time.Second)
	for _, p := range pullers {
		p.ask(start)
	}
	events := make([]syscall.EpollEvent, conns)
	for now := start; now.Before(end); {
		for _, event := range events[:await(ready, events)] {
			p := pullers[event.Fd]
			p.take()
			now = time.Now()
			p.took = append(p.took, now.Sub(p.asked).Nanoseconds())
			p.ask(now)
		}
	}
	el := time.Since(start).Seconds()
	r := report{Conns: conns}
	var bytes int64
	var all []int64
	for _, p := range pullers {
		p.socket.Close()
		r.Messages += p.messages
		r.Refused += p.refused
		bytes += p.bytes
		all = append(all, p.took...)
	}
	r.PerSec, r.MBPerSec = float64(r.Messages)/el, float64(bytes)/el/1e6
	r.latencies(all)
	return r
}

// await waits until something came for some of the connections, a second at most; how many events there are.
func await(ready int, events []syscall.EpollEvent) int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(ready), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 1000, 0, 0)
	if errno == syscall.EINTR { // Go's scheduler looks after its threads by signals.
		return 0
	}
	if errno != 0 {
		fail(errno)
	}
	return int(n)
}

// puller is one connection: it has one request under way.
type puller struct {
	socket                   socket
	r                        *bufio.Reader
	w                        *bufio.Writer
	sign                     *signer
	topic, filter, broker    string
	queue, asks              int
	offset                   int64
	asked                    time.Time
	messages, bytes, refused int64
	took                     []int64
	buf                      []byte
}

func newPuller(addr, topic string, queue int, filter, broker string) *puller {
	p := &puller{socket: connected(addr), sign: newSigner(), topic: topic, filter: filter, broker: broker, queue: queue}
	conn, err := secured(p.socket)
	if err != nil {
		fail(err)
	}
	p.r, p.w = bufio.NewReaderSize(conn, 1<<16), bufio.NewWriter(conn)
	return p
}

func (p *puller) ask(now time.Time) {
	pullRequest(p.w, p.sign, p.topic, p.queue, p.offset, p.filter, p.broker, p.asks)
	p.asked = now
	p.asks++
}

// take reads the answer.
func (p *puller) take() {
	h, body, err := readFrame(p.r, &p.buf)
	if err != nil {
		fail(err)
	}
	if code := field(h, "code"); code == pullRetry && p.filter != everything {
		p.messages += field(h, "nextBeginOffset") - p.offset
		p.offset = field(h, "nextBeginOffset")
		return
	} else if code != pullFound {
		if p.offset == 0 {
			if p.refused++; p.refused == 1 {
				fmt.Fprintln(os.Stderr, string(h))
			}
		}
		p.offset = 0
		return
	}
	p.bytes += int64(len(body))
	if p.filter != everything {
		p.messages += field(h, "nextBeginOffset") - p.offset
		p.offset = field(h, "nextBeginOffset")
		return
	}
	for len(body) >= 4 {
		n := binary.BigEndian.Uint32(body)
		if n == 0 || int(n) > len(body) {
			break
		}
		body = body[n:]
		p.messages++
	}
	p.offset = field(h, "nextBeginOffset")
}

// pullRequest asks for 32 messages. sysFlag 4: the request carries its own subscription, "KIND:EXPRESSION"; the broker does not wait.
func pullRequest(w *bufio.Writer, sign *signer, topic string, queue int, offset int64, filter, broker string, opaque int) {
	kind, expression, _ := strings.Cut(filter, ":")
	header := []byte(fmt.Sprintf(
		`{"code":11,"extFields":{"consumerGroup":"yardstick","topic":"%s","queueId":"%d","queueOffset":"%d","maxMsgNums":"32","sysFlag":"4","commitOffset":"0","suspendTimeoutMillis":"0","subscription":"%s","subVersion":"0","expressionType":"%s","bname":"%s"},"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}`,
		topic, queue, offset, expression, kind, broker, opaque))
	writeFrame(w, sign.signed(header, nil), nil)
	w.Flush()
}
