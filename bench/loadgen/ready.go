package main

import (
	"bytes"
	"strconv"
	"time"
)

// prepared is the header of a request but for its number, which is none of what is signed.
type prepared struct{ before, after []byte }

// prepare makes the requests that a connection sends again and again, so that signing them is not what is measured.
func prepare(count int, topic string, queues, c int, broker string, sign *signer, body []byte) []prepared {
	made := make([]prepared, count)
	mark := []byte(`"opaque":0,`)
	for j := range made {
		header := sendHeader(topic, (j+c)%queues, time.Now(), "", 0, c, 0, broker)
		header = sign.signed(bytes.Replace(header, []byte("B4AAC200000000"), []byte("B4AAC2"+hex8(j)), 1), body)
		at := bytes.Index(header, mark) + len(mark) - 2
		made[j] = prepared{header[:at], header[at+1:]}
	}
	return made
}

// numbered is the header with a number.
func (p *prepared) numbered(opaque int, room []byte) []byte {
	room = strconv.AppendInt(append(room[:0], p.before...), int64(opaque), 10)
	return append(room, p.after...)
}

func hex8(number int) string {
	text := "0000000" + strconv.FormatInt(int64(number), 16)
	return text[len(text)-8:]
}
