package clients

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cosi-project/runtime/api/v1alpha1"
	"github.com/cosi-project/runtime/pkg/resource"
	"github.com/cosi-project/runtime/pkg/state"
	"github.com/cosi-project/runtime/pkg/state/protobuf/client"
	"google.golang.org/grpc"
)

// Of tests/bench/clients-bench.cc, which has the same numbers.
const (
	routes, newConnections, lists, logs, dashboards = 1000, 200, 30, 3, 100
	watches, shortCalls                             = 18, 10
	logBytes                                        = 100 << 20
)

// Not a test: figures, for clients-bench, which says what is measured.
func TestFigures(t *testing.T) {
	switch os.Getenv("FIGURES") {
	case "calls":
		figuresOfCalls(t)
	case "dashboards":
		openDashboards(t)
	default:
		t.Skip("FIGURES is not set")
	}
}

func numbered(t *testing.T, number int) Identity {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(os.Getenv("IDENTITIES"), strconv.Itoa(number)))
	must(t, err)
	identity, err := ReadIdentity(text)
	must(t, err)
	return identity
}

func medianOf(times int, one func() time.Duration) time.Duration {
	var all []time.Duration
	for range times {
		all = append(all, one())
	}
	slices.Sort(all)
	return all[len(all)/2]
}

func timed(one func()) time.Duration {
	began := time.Now()
	one()
	return time.Since(began)
}

func version(t *testing.T, conn *grpc.ClientConn) {
	_, err := Unary(context.Background(), conn, machine+"Version", nil)
	must(t, err)
}

func figuresOfCalls(t *testing.T) {
	calls, err := strconv.Atoi(os.Getenv("CALLS"))
	must(t, err)
	node, endpoint, identity := os.Getenv("NODE"), os.Getenv("ENDPOINT"), numbered(t, 0)
	conn := connect(t, endpoint, node, identity)
	for range calls / 10 {
		version(t, conn) // warms up
	}
	kept := medianOf(calls, func() time.Duration { return timed(func() { version(t, conn) }) })
	fresh := medianOf(newConnections, func() time.Duration {
		return timed(func() {
			one, err := Dial(endpoint, node, identity)
			must(t, err)
			version(t, one)
			must(t, one.Close())
		})
	})
	resources := state.WrapCore(client.NewAdapter(v1alpha1.NewStateClient(conn)))
	kind := resource.NewMetadata("network", "RouteStatuses.net.talos.dev", "", resource.VersionUndefined)
	list := medianOf(lists, func() time.Duration {
		return timed(func() {
			all, err := resources.List(context.Background(), kind)
			must(t, err)
			if len(all.Items) != routes {
				t.Fatalf("%d routes", len(all.Items))
			}
		})
	})
	log := medianOf(logs, func() time.Duration { return timed(func() { readLog(t, conn) }) })
	fmt.Printf("{\"keptUs\":%.1f,\"newUs\":%.1f,\"listMs\":%.2f,\"logsMiBs\":%.0f}\n",
		float64(kept.Nanoseconds())/1e3, float64(fresh.Nanoseconds())/1e3, float64(list.Nanoseconds())/1e6,
		(logBytes>>20)/log.Seconds())
}

func readLog(t *testing.T, conn *grpc.ClientConn) {
	next, err := Stream(context.Background(), conn, machine+"Logs", Request{}.Text(1, "system").Text(2, "x").Number(5, -1))
	must(t, err)
	size := 0
	for {
		item, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		size += len(item.Bytes(2))
	}
	if size != logBytes {
		t.Fatalf("a log of %d bytes", size)
	}
}

// They stay until the input ends.
func openDashboards(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range dashboards {
		conn := connect(t, os.Getenv("ENDPOINT"), os.Getenv("NODE"), numbered(t, i))
		for range watches {
			next, err := Stream(ctx, conn, "/cosi.resource.State/Watch", Request{}.Text(1, "network").
				Text(2, "HostnameSpecs.net.talos.dev").Message(4, Request{}.Number(1, 1)))
			must(t, err)
			for range 2 { // that it is watched, and that all there is has come
				_, err = next()
				must(t, err)
			}
		}
		_, err := Stream(ctx, conn, machine+"Dmesg", Request{}.Number(1, 1))
		must(t, err)
		for range shortCalls {
			version(t, conn)
		}
	}
	fmt.Println("{}")
	_, err := io.ReadAll(os.Stdin)
	must(t, err)
}
