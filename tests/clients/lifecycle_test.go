package clients

import (
	"bytes"
	"context"
	"crypto/sha256"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Catches: a bootstrap that does not end.
func TestBootstrap(t *testing.T) {
	node, conn := here(t)
	ctx, cancel := context.WithTimeout(ToOne(node), 2*time.Minute)
	defer cancel()
	var answer []byte
	must(t, conn.Invoke(ctx, machine+"Bootstrap", Request{}, &answer))
}

// Of a cluster of three members. Catches: members under other names than our own client has, a status of
// another member, a snapshot that is not whole.
func TestEtcd(t *testing.T) {
	node, conn := here(t)
	members := ask(t, conn, node, machine+"EtcdMemberList", nil)
	ours, err := Talosctl("-n", node, "etcd", "members")
	must(t, err)
	etcd := ask(t, conn, node, machine+"EtcdStatus", nil).In(2)
	var own, leads bool
	for i, member := range members.All(3) {
		if name := member.Text(3); !strings.Contains(string(ours), name) || string(members[2][i].([]byte)) != name {
			t.Errorf("%v, and ours are\n%s", member, ours)
		}
		own = own || (etcd.Number(10) == member.Number(2) && member.Text(3) == os.Getenv("HOSTNAME_OF_NODE"))
		leads = leads || etcd.Number(4) == member.Number(2)
	}
	if len(members.All(3)) != 3 || !own || !leads || etcd.Number(2) == 0 {
		t.Errorf("status %v of the members %v", etcd, members)
	}
	if alarms := ask(t, conn, node, machine+"EtcdAlarmList", nil); alarms.Has(2) {
		t.Errorf("alarms: %v", alarms)
	}
	ask(t, conn, node, machine+"EtcdDefragment", nil)
	items, err := All(To(node), conn, machine+"EtcdSnapshot", nil)
	must(t, err)
	var snapshot bytes.Buffer
	for _, item := range items {
		snapshot.Write(item.Bytes(2))
	}
	size := snapshot.Len() - sha256.Size
	if size < 4096 {
		t.Fatalf("a snapshot of %d bytes", snapshot.Len())
	}
	if sum := sha256.Sum256(snapshot.Bytes()[:size]); !bytes.Equal(sum[:], snapshot.Bytes()[size:]) {
		t.Error("the hash behind the snapshot is not its")
	}
	_, err = Unary(ToOne(node), conn, machine+"EtcdRemoveMemberByID", Request{}.Number(1, 1))
	if status.Code(err) != codes.NotFound {
		t.Errorf("a member that is not there: %v", err)
	}
}

// Catches: containers or images of another namespace than the client names; sockets of a network that is no pod's, or
// of another one than the client names; a node's own sockets that are missing among them.
func TestContainers(t *testing.T) {
	node, conn := here(t)
	for _, namespace := range []string{"system", "k8s.io"} {
		containers := ask(t, conn, node, machine+"Containers", Request{}.Text(1, namespace).Number(2, 1)).All(2)
		arguments := []string{"-n", node, "containers"}
		if namespace == "k8s.io" {
			arguments = append(arguments, "-k")
		}
		var ours struct{ Containers []struct{ ID string } }
		must(t, TalosctlJSON(&ours, arguments...))
		if len(containers) != len(ours.Containers) {
			t.Errorf("%s: %d containers, and ours are %d", namespace, len(containers), len(ours.Containers))
		}
	}
	networks := map[string]bool{"": true} // the node's own
	for _, pod := range ask(t, conn, node, machine+"Containers", Request{}.Text(1, "k8s.io").Number(2, 1)).All(2) {
		networks[pod.Text(8)] = true
	}
	sockets := func(wanted Request) (found int) {
		for _, socket := range ask(t, conn, node, machine+"Netstat", Request{}.Message(4, wanted)).All(2) {
			if !networks[socket.Text(18)] {
				t.Errorf("a socket of the network %q, which no pod has", socket.Text(18))
			}
			if socket.Number(3) == 50000 && socket.Text(18) == "" {
				found++
			}
		}
		return found
	}
	if sockets(Request{}.Number(1, 1).Number(3, 1)) == 0 {
		t.Error("apid does not listen")
	}
	if sockets(Request{}.Number(3, 1)) != 0 {
		t.Error("sockets of the node that were not asked for")
	}
	_, err := All(To(node), conn, machine+"ImageList", Request{}.Number(1, 2))
	must(t, err)
	_, err = Unary(ToOne(node), conn, machine+"ImagePull", Request{}.Number(1, 2).Text(2, "not a name"))
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("an image without a name: %v", err)
	}
}

// As clients of 1.x wait for a reboot. Catches: events that do not tell its end, a boot id that stays.
func TestReboot(t *testing.T) {
	node, conn := here(t)
	boot := func() string {
		items, err := All(ToOne(node), conn, machine+"Read", Request{}.Text(1, "/proc/sys/kernel/random/boot_id"))
		if err != nil || len(items) == 0 {
			return ""
		}
		return items[0].Text(2)
	}
	before := boot()
	if before == "" {
		t.Fatal("no boot id")
	}
	ask(t, conn, node, machine+"Reboot", nil)
	deadline, cancel := context.WithTimeout(To(node), 2*time.Minute)
	defer cancel()
	for deadline.Err() == nil {
		if runs(deadline, conn) && boot() != before {
			if now := boot(); now != "" {
				return
			}
		}
	}
	t.Error("the node has not come back")
}

// Waits for an event that says that the machine runs and is ready; false when the stream ends before.
func runs(ctx context.Context, conn *grpc.ClientConn) bool {
	next, err := Stream(ctx, conn, machine+"Events", Request{}.Number(1, -1), grpc.WaitForReady(true))
	for err == nil {
		var event Message
		if event, err = next(); err != nil || !strings.HasSuffix(event.In(2).Text(1), ".MachineStatusEvent") {
			continue
		}
		if machine := event.In(2).In(2); machine.Number(1) == 4 && machine.In(2).Number(1) == 1 {
			return true
		}
	}
	return false
}
