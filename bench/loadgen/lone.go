package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// lone sends one message, waits for its answer, and sends the next. Where a goroutine waits, Go's scheduler parks it,
// its thread and, after 20 us, the thread that watches them: up to 30 us a message that are none of the broker's. So one
// thread waits in read(2) here, and Go is not told of it.
func lone(addr string, size, secs int, topic string, queues int, broker string) report {
	runtime.LockOSThread()
	conn, err := secured(connected(addr))
	if err != nil {
		fail(err)
	}
	sign := newSigner()
	w, r := bufio.NewWriterSize(conn, 1<<16), bufio.NewReaderSize(conn, 1<<16)
	body := bytes.Repeat([]byte{'x'}, size)
	var buf []byte
	var took []int64
	done := report{Conns: 1, Window: 1, Size: size}
	start := time.Now()
	for i := 0; time.Since(start) < time.Duration(secs)*time.Second; i++ {
		began := time.Now()
		writeFrame(w, sign.signed(sendHeader(topic, i%queues, began, "", 0, 0, i, broker), body), body)
		w.Flush()
		h, _, err := readFrame(r, &buf)
		if err != nil {
			fail(err)
		}
		took = append(took, time.Since(began).Nanoseconds())
		if field(h, "code") == 0 {
			done.Messages++
		} else if done.Refused++; done.Refused == 1 {
			fmt.Fprintln(os.Stderr, string(h))
		}
	}
	done.PerSec = float64(done.Messages) / time.Since(start).Seconds()
	done.MBPerSec = done.PerSec * float64(size) / 1e6
	done.latencies(took)
	return done
}

// socket is a connection that blocks the thread which uses it; as a net.Conn it has no more than crypto/tls asks for.
type socket int

func (s socket) Close() error                     { return syscall.Close(int(s)) }
func (s socket) LocalAddr() net.Addr              { return nil }
func (s socket) RemoteAddr() net.Addr             { return nil }
func (s socket) SetDeadline(time.Time) error      { return nil }
func (s socket) SetReadDeadline(time.Time) error  { return nil }
func (s socket) SetWriteDeadline(time.Time) error { return nil }

func connected(addr string) socket {
	to, err := net.ResolveTCPAddr("tcp4", addr)
	if err != nil {
		fail(err)
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		fail(err)
	}
	address := syscall.SockaddrInet4{Port: to.Port}
	copy(address.Addr[:], to.IP.To4())
	if err := syscall.Connect(fd, &address); err != nil {
		fail(err)
	}
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1); err != nil {
		fail(err)
	}
	return socket(fd)
}

func (s socket) Read(p []byte) (int, error)  { return s.call(syscall.SYS_READ, p) }
func (s socket) Write(p []byte) (int, error) { return s.call(syscall.SYS_WRITE, p) }

func (s socket) call(number uintptr, p []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(number, uintptr(s), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)))
		switch {
		case errno == syscall.EINTR: // Go's scheduler looks after its threads by signals.
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, io.EOF
		default:
			return int(n), nil
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
