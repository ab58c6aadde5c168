package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"hash"
	"net"
	"slices"
	"strings"
)

// How every connection of this run talks: over TLS 1.3 or not, and as whom.
var link struct {
	tls          bool
	user, secret string
}

// dial opens a connection; over TLS its certificate is not looked at, for what is measured is the broker.
func dial(addr string) (net.Conn, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return secured(conn)
}

// secured shakes hands over TLS, where this run does.
func secured(conn net.Conn) (net.Conn, error) {
	if !link.tls {
		return conn, nil
	}
	over := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	return over, over.Handshake()
}

// signer signs the requests of one connection as AclClientRPCHook does: HMAC-SHA1 over the values of the fields, in the
// order of their names, and the body.
type signer struct {
	mac     hash.Hash
	fields  []pair
	content []byte
}

type pair struct{ name, value string }

// newSigner is nil where nobody signs; that signs nothing.
func newSigner() *signer {
	if link.user == "" {
		return nil
	}
	return &signer{mac: hmac.New(sha1.New, []byte(link.secret))}
}

const extFields = `"extFields":{`

// signed puts AccessKey and Signature into a header of this program: its fields are texts with no escapes but two.
func (s *signer) signed(header, body []byte) []byte {
	if s == nil {
		return header
	}
	text := string(header)
	at := strings.Index(text, extFields) + len(extFields)
	s.fields = append(s.fields[:0], pair{"AccessKey", link.user})
	for rest := text[at:]; rest[0] != '}'; rest = strings.TrimPrefix(rest, ",") {
		words := strings.SplitN(rest, `"`, 5) // "name":"value"…
		s.fields = append(s.fields, pair{words[1], words[3]})
		rest = words[4]
	}
	slices.SortFunc(s.fields, func(a, b pair) int { return strings.Compare(a.name, b.name) })
	s.content = s.content[:0]
	for _, field := range s.fields {
		for value := field.value; value != ""; {
			i := strings.IndexByte(value, '\\') // \u0001 or \u0002, between properties
			if i < 0 {
				s.content = append(s.content, value...)
				break
			}
			s.content = append(append(s.content, value[:i]...), value[i+5]-'0')
			value = value[i+6:]
		}
	}
	s.mac.Reset()
	s.mac.Write(s.content)
	s.mac.Write(body)
	made := make([]byte, 0, len(header)+len(link.user)+64)
	made = append(append(made, text[:at]...), `"AccessKey":"`...)
	made = append(append(made, link.user...), `","Signature":"`...)
	made = append(made, base64.StdEncoding.EncodeToString(s.mac.Sum(s.content[:0]))...)
	return append(append(made, `",`...), text[at:]...)
}
