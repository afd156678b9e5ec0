package clients

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Requests that a node refuses, and how our own client is refused the same.
type refusal struct {
	method    string
	request   Request
	code      codes.Code
	arguments []string
	stream    bool
}

func (r refusal) check(t *testing.T, conn *grpc.ClientConn, node string) {
	t.Helper()
	var err error
	if r.stream {
		_, err = All(ToOne(node), conn, r.method, r.request)
	} else {
		_, err = Unary(ToOne(node), conn, r.method, r.request)
	}
	words := status.Convert(err).Message()
	if status.Code(err) != r.code || words == "" {
		t.Errorf("%s: %v, not %v", r.method, err, r.code)
	}
	if out, ours := Talosctl(append([]string{"-n", node}, r.arguments...)...); ours == nil || !strings.Contains(ours.Error(), words) {
		t.Errorf("%s says %q, and our own client %v%s", r.method, words, ours, out)
	}
	// Of several it is the answer of the one.
	if r.stream {
		return
	}
	reply, err := Unary(To(node), conn, r.method, r.request)
	must(t, err)
	if got := reply.In(1).In(1); got.In(3).Number(1) != uint64(r.code) || !strings.Contains(got.Text(2), words) {
		t.Errorf("%s of several nodes: %v", r.method, got)
	}
}

// Catches: a call that a node in a container, or any node, cannot do and that is answered as if it were
// done, or with other words than our own client prints.
func TestRefused(t *testing.T) {
	node, conn := here(t)
	const precondition = codes.FailedPrecondition
	image := "http://example.com/installer.tar" // without a digest
	for _, r := range []refusal{
		{machine + "Upgrade", Request{}.Text(1, image), codes.InvalidArgument, []string{"upgrade", "--wait=false", "-i", image}, false},
		{machine + "Rollback", nil, codes.NotFound, []string{"rollback", "--wait=false"}, false},
		{machine + "MetaWrite", Request{}.Number(1, 10).Text(2, "x"), precondition, []string{"meta", "write", "10", "x"}, false},
		{machine + "MetaDelete", Request{}.Number(1, 10), precondition, []string{"meta", "delete", "10"}, false},
		{"/storage.StorageService/BlockDeviceWipe", Request{}.Message(1, Request{}.Text(1, "vdb")), codes.NotFound, []string{"wipe", "disk", "vdb"}, false},
		{"/time.TimeService/Time", nil, precondition, []string{"time"}, false},
		{"/time.TimeService/TimeCheck", Request{}.Text(1, "127.0.0.1"), codes.Unavailable, []string{"time", "--check", "127.0.0.1"}, false},
		{machine + "Restart", Request{}.Text(1, "system").Text(2, "nope"), codes.NotFound, []string{"restart", "nope"}, false},
		{machine + "Reset", Request{}.Message(3, Request{}.Text(1, "NOPE").Number(2, 1)), codes.InvalidArgument,
			[]string{"reset", "-y", "--wait=false", "--system-labels-to-wipe", "NOPE"}, false},
		{machine + "ServiceStop", Request{}.Text(1, "machined"), precondition, []string{"service", "machined", "stop"}, false},
		{machine + "ServiceStart", Request{}.Text(1, "nope"), codes.NotFound, []string{"service", "nope", "start"}, false},
		{machine + "EtcdRemoveMember", Request{}.Text(1, "nope"), codes.NotFound, []string{"etcd", "remove-member", "nope"}, false},
		{machine + "ImagePull", Request{}.Number(1, 2).Text(2, "not a name"), codes.InvalidArgument, []string{"image", "pull", "not a name"}, false},
		{machine + "PacketCapture", Request{}.Text(1, "nope0"), codes.NotFound,
			[]string{"pcap", "-i", "nope0", "--duration", "1s", "-o", filepath.Join(t.TempDir(), "pcap")}, true},
	} {
		r.check(t, conn, node)
	}
	worker := everyNode()[3]
	for _, r := range []refusal{
		{machine + "EtcdMemberList", nil, precondition, []string{"etcd", "members"}, false},
		{machine + "EtcdStatus", nil, precondition, []string{"etcd", "status"}, false},
		{machine + "Bootstrap", nil, precondition, []string{"bootstrap"}, false},
		{machine + "EtcdLeaveCluster", nil, precondition, []string{"etcd", "leave"}, false},
		{machine + "EtcdSnapshot", nil, precondition, []string{"etcd", "snapshot", filepath.Join(t.TempDir(), "db")}, true},
		{machine + "Kubeconfig", nil, precondition, []string{"kubeconfig", t.TempDir()}, true},
	} {
		r.check(t, conn, worker)
	}
}

// The process of a service.
func pid(t *testing.T, conn *grpc.ClientConn, node, program string) uint64 {
	t.Helper()
	for _, process := range ask(t, conn, node, machine+"Processes", nil).All(2) {
		if process.Text(8) == program {
			return process.Number(1)
		}
	}
	return 0
}

// Until the node says that the service is in this state.
func becomes(t *testing.T, conn *grpc.ClientConn, node, service, state string) {
	t.Helper()
	var is string
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); {
		for _, s := range ask(t, conn, node, machine+"ServiceList", nil).All(2) {
			if s.Text(1) == service {
				is = s.Text(2)
			}
		}
		if is == state {
			return
		}
	}
	t.Fatalf("%s is %s, not %s", service, is, state)
}

// By an operator. Catches: a service that is said to stop and runs, one that is another process only in
// the answer, and a role that has less here than it has for our own client.
func TestServices(t *testing.T) {
	node, admin := here(t)
	made := ask(t, admin, node, machine+"GenerateClientConfiguration",
		Request{}.Text(1, "os:operator").Message(2, Request{}.Number(1, 3600)))
	operator, err := ReadIdentity(made.Bytes(5))
	must(t, err)
	conn := connect(t, os.Getenv("ENDPOINT"), node, operator)
	before := pid(t, conn, node, "trustd")
	if said := ask(t, conn, node, machine+"ServiceStop", Request{}.Text(1, "trustd")).Text(2); said == "" {
		t.Error("no response")
	}
	becomes(t, conn, node, "trustd", "Finished")
	if now := pid(t, conn, node, "trustd"); before == 0 || now != 0 {
		t.Errorf("trustd was %d and is %d", before, now)
	}
	ask(t, conn, node, machine+"ServiceStart", Request{}.Text(1, "trustd"))
	becomes(t, conn, node, "trustd", "Running")
	started := pid(t, conn, node, "trustd")
	ask(t, conn, node, machine+"Restart", Request{}.Text(1, "system").Text(2, "trustd"))
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); {
		if now := pid(t, conn, node, "trustd"); now != 0 && now != started {
			becomes(t, conn, node, "trustd", "Running")
			return
		}
	}
	t.Errorf("trustd is still %d", started)
}

// Catches: packets without the head of a file, and a capture that its client cannot end.
func TestPacketCapture(t *testing.T) {
	node, conn := here(t)
	file := filepath.Join(t.TempDir(), "pcap")
	_, err := Talosctl("-n", node, "pcap", "-i", "lo", "-s", "128", "--duration", "100ms", "-o", file)
	must(t, err)
	ours, err := os.ReadFile(file)
	must(t, err)
	ctx, cancel := context.WithTimeout(ToOne(node), Patience)
	defer cancel()
	next, err := Stream(ctx, conn, machine+"PacketCapture", Request{}.Text(1, "eth0").Number(3, 128))
	must(t, err)
	const head, packet = 24, 16
	var captured []byte
	for len(captured) <= head+packet { // the answers of the capture are packets themselves
		item, err := next()
		must(t, err)
		captured = append(captured, item.Bytes(2)...)
	}
	if len(ours) < head || !bytes.Equal(captured[:head], ours[:head]) {
		t.Errorf("%x, and ours is %x", captured[:head], ours)
	}
	cancel()
	for err == nil {
		_, err = next()
	}
	if status.Code(err) != codes.Canceled {
		t.Errorf("a capture ends with %v", err)
	}
}

// Catches: a config that our own client finds wrong, or without what was asked for.
func TestGenerateConfiguration(t *testing.T) {
	node, conn := here(t)
	for machineType, name := range map[int64]string{2: "controlplane", 3: "worker"} {
		request := Request{}.Text(1, "v1alpha1").
			Message(2, Request{}.Text(1, "generated").Message(2, Request{}.Text(1, "https://10.9.9.9:6443"))).
			Message(3, Request{}.Number(1, machineType).Message(2, Request{}.Text(1, "/dev/vdb")))
		made := ask(t, conn, node, machine+"GenerateConfiguration", request)
		file := filepath.Join(t.TempDir(), "config.yaml")
		must(t, os.WriteFile(file, made.Bytes(2), 0o600))
		if out, err := Talosctl("validate", "-c", file, "-m", "metal"); err != nil {
			t.Errorf("%s: %v%s", name, err, out)
		}
		for _, part := range []string{"type: " + name, "https://10.9.9.9:6443", "/dev/vdb"} {
			if !strings.Contains(made.Text(2), part) {
				t.Errorf("%s: no %q", name, part)
			}
		}
		if _, err := ReadIdentity(made.Bytes(3)); err != nil {
			t.Errorf("%s: its talosconfig: %v", name, err)
		}
	}
}

func memberNames(t *testing.T, conn *grpc.ClientConn, node string) (names []string) {
	t.Helper()
	row := comparison{method: machine + "EtcdMemberList", field: 3, then: 3, command: "etcd members", key: "members.name"}
	for _, member := range ask(t, conn, node, row.method, nil).All(3) {
		names = append(names, member.Text(3))
	}
	if ours := row.ours(t, node); !slices.Equal(sorted(names), ours) {
		t.Errorf("members %v, and ours are %v", names, ours)
	}
	return names
}

// Of three members the last leaves, and the second is removed. Catches: a member that another name
// stands for, one that is a member still, and a removal that waits for an answer of the removed one.
func TestMembersGo(t *testing.T) {
	node, conn := here(t)
	nodes := everyNode()
	nameOf := func(node string) string { return ask(t, conn, node, machine+"Hostname", nil).Text(2) }
	own, removed := nameOf(node), nameOf(nodes[1])
	ctx, cancel := context.WithTimeout(ToOne(nodes[2]), 2*time.Minute) // members wait for each other
	defer cancel()
	var answer []byte
	must(t, conn.Invoke(ctx, machine+"EtcdLeaveCluster", Request{}, &answer))
	if names := memberNames(t, conn, node); !slices.Equal(names, sorted([]string{own, removed})) {
		t.Errorf("members: %v", names)
	}
	ask(t, conn, node, machine+"EtcdRemoveMember", Request{}.Text(1, removed))
	if names := memberNames(t, conn, node); !slices.Equal(names, []string{own}) {
		t.Errorf("members: %v", names)
	}
	alone := refusal{machine + "EtcdForfeitLeadership", nil, codes.FailedPrecondition, []string{"etcd", "forfeit-leadership"}, false}
	alone.check(t, conn, node)
}

// Until the node says by an event that it stops everything, as clients wait.
func stops(t *testing.T, conn *grpc.ClientConn, node, method string, request Request) {
	t.Helper()
	ctx, cancel := context.WithTimeout(To(node), Patience)
	defer cancel()
	next, err := Stream(ctx, conn, machine+"Events", nil)
	must(t, err)
	_, err = next()
	must(t, err)
	ask(t, conn, node, method, request)
	for {
		event, err := next()
		if err != nil {
			t.Fatalf("%s: no event reports that all services are stopped: %v", method, err)
		}
		if strings.HasSuffix(event.In(2).Text(1), ".TaskEvent") && event.In(2).In(2).Text(1) == "stopAllServices" {
			return
		}
	}
}

// Catches: a reset, or a shutdown, that does not start, or whose events do not report it.
func TestReset(t *testing.T) {
	node, conn := here(t)
	stops(t, conn, node, machine+"Reset", Request{}.Number(2, 1))
}

func TestShutdown(t *testing.T) {
	node, conn := here(t)
	stops(t, conn, node, machine+"Shutdown", nil)
}
