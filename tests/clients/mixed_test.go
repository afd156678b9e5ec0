package clients

import (
	"context"
	"os"
	"strings"
	"testing"

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
