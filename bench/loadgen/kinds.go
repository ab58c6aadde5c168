package main

import (
	"fmt"
	"strings"
	"time"
)

// kinds are the requests other than plain sends that `send` can make: request i of connection c. Of a send the body is given.
var kinds = map[string]func(topic string, queue, c, i int, broker string, body []byte) ([]byte, []byte){
	"max": func(topic string, queue, _, i int, _ string, _ []byte) ([]byte, []byte) {
		return command(30, fmt.Sprintf(`{"queueId":"%d","topic":"%s"}`, queue, topic), i), nil
	},
	"heartbeat": func(topic string, _, c, i int, _ string, _ []byte) ([]byte, []byte) {
		return command(34, "{}", i), []byte(fmt.Sprintf(
			`{"clientID":"c%d","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET","consumeType":"CONSUME_PASSIVELY","groupName":"g","messageModel":"CLUSTERING","subscriptionDataSet":[{"classFilterMode":false,"codeSet":[],"expressionType":"TAG","subString":"*","subVersion":1,"tagsSet":[],"topic":"%s"}],"unitMode":false}],"heartbeatFingerprint":0,"producerDataSet":[{"groupName":"yardstick"}],"withoutSub":false}`,
			c, topic))
	},
	"lock": func(topic string, _, c, i int, broker string, _ []byte) ([]byte, []byte) {
		queues := make([]string, 4)
		for queue := range queues {
			queues[queue] = fmt.Sprintf(`{"brokerName":"%s","queueId":%d,"topic":"%s"}`, broker, queue, topic)
		}
		return command(41, "{}", i), []byte(fmt.Sprintf(
			`{"clientId":"c%d","consumerGroup":"g%d","mqSet":[%s]}`, c, c, strings.Join(queues, ",")))
	},
	"delay": special(`DELAY\u00013\u0002`, 0),
	"timer": special(`TIMER_DELAY_SEC\u00013600\u0002`, 0),
	"half":  special(`PGROUP\u0001yardstick\u0002TRAN_MSG\u0001true\u0002`, 4),
}

func command(code int, fields string, opaque int) []byte {
	return []byte(fmt.Sprintf(
		`{"code":%d,"extFields":%s,"flag":0,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":479}`,
		code, fields, opaque))
}

// special makes sends with properties and a system flag that a plain one has not.
func special(properties string, sysFlag int) func(string, int, int, int, string, []byte) ([]byte, []byte) {
	return func(topic string, queue, c, i int, broker string, body []byte) ([]byte, []byte) {
		return sendHeader(topic, queue, time.Now(), properties, sysFlag, c, i, broker), body
	}
}
