package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"time"
)

const queryNotFound = 22

// old are the kinds of requests that name a message which is there already.
var old = map[string]bool{"view": true, "time": true, "refuse": true}

// place is where a record stands in the log, and when it was stored, ms.
type place struct{ offset, stored int64 }

// places are the first records of the topic's queues.
var places []place

func init() {
	kinds["key"] = func(topic string, _, c, i int, _ string, _ []byte) ([]byte, []byte) {
		return command(12, keyFields(topic, fmt.Sprintf("key-%d-%d", c, i%1000)), i), nil
	}
	kinds["nokey"] = func(topic string, _, c, i int, _ string, _ []byte) ([]byte, []byte) {
		return command(12, keyFields(topic, fmt.Sprintf("none-%d-%d", c, i)), i), nil
	}
	kinds["view"] = func(_ string, _, _, i int, _ string, _ []byte) ([]byte, []byte) {
		return command(33, fmt.Sprintf(`{"offset":"%d"}`, places[i%len(places)].offset), i), nil
	}
	// Moments between the first record and now, in turn.
	kinds["time"] = func(topic string, queue, _, i int, _ string, _ []byte) ([]byte, []byte) {
		first := places[0].stored
		at := first + (time.Now().UnixMilli()-first)*int64(i%64)/64
		return command(29, fmt.Sprintf(`{"queueId":"%d","timestamp":"%d","topic":"%s"}`, queue, at, topic), i), nil
	}
	kinds["refuse"] = func(topic string, _, _, i int, _ string, _ []byte) ([]byte, []byte) {
		return command(36, fmt.Sprintf(
			`{"delayLevel":"3","group":"yardstick","maxReconsumeTimes":"16","offset":"%d","originMsgId":"7F000001","originTopic":"%s","unitMode":"false"}`,
			places[i%len(places)].offset, topic), i), nil
	}
}

func keyFields(topic, key string) string {
	return fmt.Sprintf(`{"beginTimestamp":"0","endTimestamp":"%d","key":"%s","maxNum":"32","topic":"%s"}`, int64(1)<<60, key, topic)
}

// firstRecords pulls once from each queue.
func firstRecords(addr, topic string, queues int, broker string) []place {
	conn, err := dial(addr)
	if err != nil {
		fail(err)
	}
	defer conn.Close()
	r, w, sign := bufio.NewReaderSize(conn, 1<<20), bufio.NewWriter(conn), newSigner()
	var buf []byte
	var found []place
	for q := 0; q < queues; q++ {
		pullRequest(w, sign, topic, q, 0, everything, broker, q)
		_, body, err := readFrame(r, &buf)
		if err != nil {
			fail(err)
		}
		// A record: … | physical offset 8 at 28 | … | born host 8 at 48 | store time 8 at 56.
		for len(body) >= 64 {
			found = append(found, place{int64(binary.BigEndian.Uint64(body[28:])), int64(binary.BigEndian.Uint64(body[56:]))})
			body = body[binary.BigEndian.Uint32(body):]
		}
	}
	if len(found) == 0 {
		fail(fmt.Errorf("topic %s has no messages", topic))
	}
	return found
}
