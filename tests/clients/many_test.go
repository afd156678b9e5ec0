package clients

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Catches: bytes that are lost, or a stream that stops, with the windows of clients of 0.9 (grpc-go's
// own, which it widens by pings), while other calls of the connection go on.
func TestLargeStreamWithSmallWindows(t *testing.T) {
	node, _ := here(t)
	conn, err := Dial(os.Getenv("ENDPOINT"), node, administrator(t), func() []grpc.DialOption {
		return []grpc.DialOption{grpc.WithInitialWindowSize(0), grpc.WithInitialConnWindowSize(0)}
	}()...)
	must(t, err)
	defer conn.Close()
	next, err := Stream(context.Background(), conn, machine+"Read", Request{}.Text(1, "/usr/bin/apid"))
	must(t, err)
	size, asked := 0, 0
	for {
		item, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		size += len(item.Bytes(2))
		if size>>23 > asked {
			asked++
			_, err := Unary(context.Background(), conn, machine+"Version", nil)
			must(t, err)
		}
	}
	items, err := All(ToOne(node), conn, machine+"List", Request{}.Text(1, "/usr/bin/apid"))
	must(t, err)
	if len(items) != 1 || uint64(size) != items[0].Number(3) || size < 16<<20 {
		t.Errorf("%d bytes came, and the file is %v", size, items)
	}
}

// The streams that a dashboard has open at once. Catches: a connection, or a node, that has not enough room for it.
func TestManyStreams(t *testing.T) {
	node, conn := here(t)
	ctx, cancel := context.WithCancel(ToOne(node))
	defer cancel()
	const watches = 40
	var begun, ended sync.WaitGroup
	begun.Add(watches)
	for range watches {
		ended.Add(1)
		go func() {
			defer ended.Done()
			next, err := Stream(ctx, conn, "/cosi.resource.State/Watch",
				Request{}.Text(1, "runtime").Text(2, services).Message(4, Request{}.Number(1, 1)))
			if err == nil {
				_, err = next()
			}
			if err != nil {
				t.Errorf("a watch: %v", err)
			}
			begun.Done()
			for err == nil {
				_, err = next()
			}
			if status.Code(err) != codes.Canceled {
				t.Errorf("a watch ends with %v", err)
			}
		}()
	}
	begun.Wait()
	for range 100 {
		if _, err := Unary(ToOne(node), conn, machine+"Memory", nil); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	ended.Wait()
	// What they held is free again, or this fails.
	again, stop := context.WithTimeout(ToOne(node), Patience)
	defer stop()
	for range 2 * watches {
		one, end := context.WithCancel(again)
		next, err := Stream(one, conn, machine+"Events", nil)
		must(t, err)
		_, err = next()
		must(t, err)
		end()
	}
}
