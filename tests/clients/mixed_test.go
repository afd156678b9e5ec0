package clients

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Catches: a machine without a config that serves these clients more than it must, or less: they give
// it its config by this.
func TestMaintenance(t *testing.T) {
	conn := connect(t, os.Getenv("ENDPOINT"), os.Getenv("NODE"), Identity{})
	ctx := context.Background()
	if _, err := Unary(ctx, conn, "/storage.StorageService/Disks", nil); err != nil {
		t.Errorf("Disks: %v", err)
	}
	version, err := Unary(ctx, conn, machine+"Version", nil)
	must(t, err)
	if version.In(1).In(2).Text(1) == "" {
		t.Errorf("%v", version)
	}
	for _, method := range []string{"ServiceList", "Reboot", "Processes"} {
		if _, err := Unary(ctx, conn, machine+method, nil); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
	}
	_, err = Unary(ToOne("10.5.0.77"), conn, machine+"Version", nil)
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a machine in maintenance mode forwards: %v", err)
	}
	if _, err := Unary(ctx, conn, machine+"ApplyConfiguration", Request{}.Text(1, "machine: coffee\n")); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a bad config: %v", err)
	}
	config, err := os.ReadFile(os.Getenv("CONFIG"))
	must(t, err)
	if _, err := Unary(ctx, conn, machine+"ApplyConfiguration", Request{}.Text(1, string(config))); err != nil {
		t.Errorf("its config: %v", err)
	}
}

// Of four nodes one is down and one has no config. Catches: answers that are lost, or of another node,
// because one node fails; a failure that the client cannot print.
func TestMixedNodes(t *testing.T) {
	node, conn := here(t)
	other, down, without := os.Getenv("OTHER"), os.Getenv("DOWN"), os.Getenv("MAINTENANCE")
	all := To(node, other, down, without)
	reply, err := Unary(all, conn, machine+"Hostname", nil)
	must(t, err)
	answers := reply.All(1)
	if len(answers) != 4 {
		t.Fatalf("%d answers", len(answers))
	}
	names := map[string]bool{}
	for i, name := range []string{node, other, down, without} {
		metadata := answers[i].In(1)
		if metadata.Text(1) != name {
			t.Errorf("answer %d is of %q", i, metadata.Text(1))
		}
		if fails := i >= 2; metadata.Has(2) != fails || metadata.Has(3) != fails || answers[i].Has(2) == fails {
			t.Errorf("%s: %v", name, answers[i])
		}
		if i >= 2 && !strings.HasPrefix(metadata.Text(2), "rpc error: code = ") {
			t.Errorf("%s: %q", name, metadata.Text(2))
		}
		names[answers[i].Text(2)] = true
	}
	if len(names) != 3 { // two hostnames, and none
		t.Errorf("%v", names)
	}
	items, err := All(all, conn, machine+"Logs", Request{}.Text(1, "system").Text(2, "machined").Number(5, 3))
	must(t, err)
	said, failed := map[string]int{}, map[string]int{}
	for _, item := range items {
		if item.In(1).Has(2) {
			failed[item.In(1).Text(1)]++
		} else {
			said[item.In(1).Text(1)]++
		}
	}
	if said[node] == 0 || said[other] == 0 || len(said) != 2 || failed[down] != 1 || failed[without] != 1 || len(failed) != 2 {
		t.Errorf("said %v, failed %v", said, failed)
	}
	if _, err := Unary(ToOne(down), conn, machine+"Version", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("the one that is down: %v", err)
	}
}

// One more of them does not answer, and the client has a deadline. Catches: one slow node whose silence
// is the answer of all, and an answer that comes after the caller has given up.
func TestSlowNode(t *testing.T) {
	node, conn := here(t)
	slow, down, without := os.Getenv("OTHER"), os.Getenv("DOWN"), os.Getenv("MAINTENANCE")
	ctx, cancel := context.WithTimeout(To(node, slow, down, without), 8*time.Second)
	defer cancel()
	var bytes []byte
	must(t, conn.Invoke(ctx, machine+"Version", Request{}, &bytes))
	reply, err := Parse(bytes)
	must(t, err)
	// The one that is down is dialled for 10 s, unless it is reported down earlier.
	expected := [][]codes.Code{{codes.OK}, {codes.DeadlineExceeded}, {codes.DeadlineExceeded, codes.Unavailable},
		{codes.Unimplemented}}
	for i, answer := range reply.All(1) {
		code := codes.Code(answer.In(1).In(3).Number(1))
		if i >= len(expected) || !slices.Contains(expected[i], code) || answer.Has(2) != (code == codes.OK) {
			t.Errorf("answer %d: %v %s", i, code, answer.In(1).Text(2))
		}
	}
	if len(reply.All(1)) != len(expected) {
		t.Errorf("%d answers", len(reply.All(1)))
	}
	// What the others tell in a stream does not wait for it.
	streaming, stop := context.WithTimeout(To(slow, node), Patience)
	defer stop()
	next, err := Stream(streaming, conn, machine+"Logs", Request{}.Text(1, "system").Text(2, "machined").Number(5, 1))
	must(t, err)
	item, err := next()
	must(t, err)
	if item.In(1).Text(1) != node || item.Text(2) == "" {
		t.Errorf("the first item is %v", item)
	}
}

// The slow one goes on. Catches: what waits for it for ever, and a connection to it that is never used
// again.
func TestSlowNodeGoesOn(t *testing.T) {
	node, conn := here(t)
	reply, err := Unary(To(node, os.Getenv("OTHER")), conn, machine+"Hostname", nil)
	must(t, err)
	for _, answer := range reply.All(1) {
		if answer.Text(2) == "" || answer.In(1).Has(2) {
			t.Errorf("%v", answer)
		}
	}
}
