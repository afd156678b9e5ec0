// Package clients calls a node as programs written in Go do: with grpc-go's transport as the original's
// clients have it, messages by their numbers, and for resources the published client of COSI.
package clients

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Message is a message of which only the numbers of its fields are known.
type Message map[protowire.Number][]any // uint64 or []byte

// Parse fails for bytes that are no message.
func Parse(bytes []byte) (Message, error) {
	message := Message{}
	for len(bytes) > 0 {
		number, kind, size := protowire.ConsumeTag(bytes)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		bytes = bytes[size:]
		var value any
		switch kind {
		case protowire.VarintType:
			value, size = varint(bytes)
		case protowire.Fixed64Type:
			value, size = fixed64(bytes)
		case protowire.BytesType:
			value, size = field(bytes)
		default:
			return nil, fmt.Errorf("field %d has the type %d", number, kind)
		}
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		bytes = bytes[size:]
		message[number] = append(message[number], value)
	}
	return message, nil
}

func varint(b []byte) (any, int)  { v, n := protowire.ConsumeVarint(b); return v, n }
func fixed64(b []byte) (any, int) { v, n := protowire.ConsumeFixed64(b); return v, n }
func field(b []byte) (any, int)   { v, n := protowire.ConsumeBytes(b); return v, n }

// Text is that of the first field of the number.
func (m Message) Text(number protowire.Number) string { return string(m.Bytes(number)) }

// Bytes are those of the first field of the number.
func (m Message) Bytes(number protowire.Number) []byte {
	if values := m[number]; len(values) > 0 {
		if bytes, ok := values[0].([]byte); ok {
			return bytes
		}
	}
	return nil
}

// Number is that of the first field of the number, 0 without one.
func (m Message) Number(number protowire.Number) uint64 {
	if values := m[number]; len(values) > 0 {
		if value, ok := values[0].(uint64); ok {
			return value
		}
	}
	return 0
}

// Has reports whether there is such a field.
func (m Message) Has(number protowire.Number) bool { return len(m[number]) > 0 }

// In is the message in the first field of the number; nil when there is none.
func (m Message) In(number protowire.Number) Message {
	if all := m.All(number); len(all) > 0 {
		return all[0]
	}
	return nil
}

// All are the messages in the fields of the number.
func (m Message) All(number protowire.Number) []Message {
	var all []Message
	for _, value := range m[number] {
		bytes, ok := value.([]byte)
		if !ok {
			return nil
		}
		inner, err := Parse(bytes)
		if err != nil {
			return nil
		}
		all = append(all, inner)
	}
	return all
}

// Request is a message that is being made.
type Request []byte

// Text adds a text.
func (r Request) Text(number protowire.Number, value string) Request {
	return protowire.AppendString(protowire.AppendTag(r, number, protowire.BytesType), value)
}

// Number adds a number.
func (r Request) Number(number protowire.Number, value int64) Request {
	return protowire.AppendVarint(protowire.AppendTag(r, number, protowire.VarintType), uint64(value))
}

// Message adds a message.
func (r Request) Message(number protowire.Number, value Request) Request {
	return protowire.AppendBytes(protowire.AppendTag(r, number, protowire.BytesType), value)
}

// codec is that of protobuf, under its name (so that the content type is the usual one), which takes
// bytes as they are.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) (mem.BufferSlice, error) {
	switch message := v.(type) {
	case Request:
		return mem.BufferSlice{mem.SliceBuffer(message)}, nil
	case proto.Message:
		bytes, err := proto.Marshal(message)
		return mem.BufferSlice{mem.SliceBuffer(bytes)}, err
	}
	return nil, fmt.Errorf("cannot send %T", v)
}

func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch message := v.(type) {
	case *[]byte:
		*message = data.Materialize()
		return nil
	case proto.Message:
		return proto.Unmarshal(data.Materialize(), message)
	}
	return fmt.Errorf("cannot receive %T", v)
}

func init() { encoding.RegisterCodecV2(codec{}) }
