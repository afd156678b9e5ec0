package clients

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// The test of the cluster that runs this says where it is; without it these tests do not run.
func here(t *testing.T) (node string, conn *grpc.ClientConn) {
	t.Helper()
	node = os.Getenv("NODE")
	if node == "" {
		t.Fatal("NODE is not set; ctest runs this program")
	}
	return node, connect(t, os.Getenv("ENDPOINT"), node, administrator(t))
}

func administrator(t *testing.T) Identity {
	t.Helper()
	text, err := os.ReadFile(os.Getenv("TALOSCONFIG"))
	must(t, err)
	identity, err := ReadIdentity(text)
	must(t, err)
	return identity
}

func connect(t *testing.T, endpoint, name string, identity Identity) *grpc.ClientConn {
	t.Helper()
	conn, err := Dial(endpoint, name, identity)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// One answer of one node, by a call that is merged.
func ask(t *testing.T, conn *grpc.ClientConn, node, method string, request Request) Message {
	t.Helper()
	reply, err := Unary(To(node), conn, method, request)
	must(t, err)
	if all := reply.All(1); len(all) != 1 {
		t.Fatalf("%s: %d answers", method, len(all))
	}
	answer := reply.In(1)
	if name := answer.In(1).Text(1); name != node {
		t.Fatalf("%s: the answer is of %q, not %q", method, name, node)
	}
	if problem := answer.In(1).Text(2); problem != "" {
		t.Fatalf("%s: %s", method, problem)
	}
	return answer
}

const machine = "/machine.MachineService/"

// Clients of this version and before compare it with their own: of an older one they warn.
const apiVersion = "v1.9.6"

// Catches: a version of another node, or another than our own client prints; a call without metadata
// with an answer that names a node.
func TestVersion(t *testing.T) {
	node, conn := here(t)
	var printed struct {
		Server []struct{ Tag, Sha, Os, Arch, Mode string }
	}
	must(t, TalosctlJSON(&printed, "-n", node, "version"))
	if len(printed.Server) != 1 {
		t.Fatalf("ours is %+v", printed)
	}
	ours := printed.Server[0]
	version := ask(t, conn, node, machine+"Version", nil)
	theirs := version.In(2)
	if theirs.Text(1) != apiVersion || theirs.Text(2) != ours.Sha || theirs.Text(5) != ours.Os ||
		theirs.Text(6) != ours.Arch || version.In(3).Text(2) != ours.Mode || ours.Tag == "" || ours.Tag == apiVersion {
		t.Errorf("%v, and ours is %+v", theirs, ours)
	}
	reply, err := Unary(context.Background(), conn, machine+"Version", nil)
	must(t, err)
	if reply.In(1).Has(1) || reply.In(1).In(2).Text(2) != ours.Sha {
		t.Errorf("without metadata: %v", reply)
	}
	reply, err = Unary(ToOne(node), conn, machine+"Version", nil)
	must(t, err)
	if reply.In(1).Has(1) || reply.In(1).In(2).Text(2) != ours.Sha {
		t.Errorf("with node: %v", reply)
	}
}

// Catches: other services than our own client lists, and sub-messages that Go follows blindly.
func TestServiceList(t *testing.T) {
	node, conn := here(t)
	var ours struct {
		Services []struct{ ID, State string }
	}
	must(t, TalosctlJSON(&ours, "-n", node, "services"))
	services := ask(t, conn, node, machine+"ServiceList", nil).All(2)
	if len(services) != len(ours.Services) || len(services) < 5 {
		t.Fatalf("%d services, and ours are %d", len(services), len(ours.Services))
	}
	for i, service := range services {
		if service.Text(1) != ours.Services[i].ID || !strings.EqualFold(service.Text(2), ours.Services[i].State) {
			t.Errorf("%s %s, and ours is %+v", service.Text(1), service.Text(2), ours.Services[i])
		}
		if !service.Has(3) || !service.Has(4) {
			t.Errorf("%s has no events or no health", service.Text(1))
		}
	}
	restarted := ask(t, conn, node, machine+"ServiceRestart", Request{}.Text(1, "trustd"))
	if restarted.Text(2) == "" {
		t.Error("no response")
	}
}

// Catches: a log of another service, lines that are lost, a follow that does not end with its call.
func TestLogs(t *testing.T) {
	node, conn := here(t)
	request := Request{}.Text(1, "system").Text(2, "trustd").Number(5, -1)
	items, err := All(To(node), conn, machine+"Logs", request)
	must(t, err)
	var text string
	for _, item := range items {
		if item.In(1).Text(1) != node {
			t.Fatalf("an item of %q", item.In(1).Text(1))
		}
		text += item.Text(2)
	}
	ours, err := Talosctl("-n", node, "logs", "trustd")
	must(t, err)
	first, _, _ := strings.Cut(text, "\n")
	if first == "" || !strings.Contains(string(ours), first) {
		t.Errorf("%q is not in what our own client prints", first)
	}
	ctx, cancel := context.WithTimeout(To(node), 2*time.Second)
	defer cancel()
	next, err := Stream(ctx, conn, machine+"Logs", request.Number(4, 1))
	must(t, err)
	for err == nil {
		_, err = next()
	}
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a follow ends with %v", err)
	}
	ids := ask(t, conn, node, machine+"LogsContainers", nil)
	if !slices.ContainsFunc(ids[2], func(id any) bool { return string(id.([]byte)) == "trustd" }) {
		t.Errorf("no trustd in %v", ids)
	}
	_, err = All(ToOne(node), conn, machine+"Logs", Request{}.Text(1, "system").Text(2, "nope"))
	if status.Code(err) != codes.NotFound || !strings.Contains(status.Convert(err).Message(), `log "nope" was not registered`) {
		t.Errorf("an unknown log: %v", err)
	}
}

// Catches: other files than our own client lists, kinds that Go shows as others, depths that differ.
func TestFiles(t *testing.T) {
	node, conn := here(t)
	ours, err := Talosctl("-n", node, "list", "/etc/ssl", "-r")
	must(t, err)
	items, err := All(To(node), conn, machine+"List", Request{}.Text(1, "/etc/ssl").Number(2, 1))
	must(t, err)
	var links, folders int
	root, err := All(To(node), conn, machine+"List", Request{}.Text(1, "/"))
	must(t, err)
	for _, item := range append(root, items...) {
		if strings.HasPrefix(item.Text(2), "/etc/ssl") && item.Text(7) == "" && !strings.Contains(string(ours), item.Text(9)) {
			t.Errorf("our own client does not list %q", item.Text(9))
		}
		mode := os.FileMode(item.Number(4))
		if mode.IsDir() != (item.Number(6) == 1) {
			t.Errorf("%s: %v", item.Text(2), mode)
		}
		if mode.IsDir() {
			folders++
		}
		if mode&os.ModeSymlink != 0 && item.Text(8) != "" {
			links++
		}
	}
	if links == 0 || folders < 2 {
		t.Errorf("%d links, %d folders", links, folders)
	}
	read, err := All(ToOne(node), conn, machine+"Read", Request{}.Text(1, "/etc/os-release"))
	must(t, err)
	var text string
	for _, item := range read {
		text += item.Text(2)
	}
	mine, err := Talosctl("-n", node, "read", "/etc/os-release")
	must(t, err)
	if text != string(mine) || text == "" {
		t.Errorf("%q, and ours is %q", text, mine)
	}
	_, err = All(ToOne(node), conn, machine+"Read", Request{}.Text(1, "/etc/nope"))
	if status.Code(err) != codes.NotFound {
		t.Errorf("a missing file: %v", err)
	}
	usage, err := All(To(node), conn, machine+"DiskUsage", Request{}.Number(2, 1).Text(4, "/etc"))
	must(t, err)
	if len(usage) == 0 || usage[len(usage)-1].Number(3) == 0 {
		t.Errorf("usage: %v", usage)
	}
	archive(t, conn, node, Request{}.Text(1, "/etc/ssl"), "Copy", "certs")
}

// The content of a gzip'd tar that a stream of bytes is: one of the names has this in it.
func archive(t *testing.T, conn *grpc.ClientConn, node string, request Request, method, name string) []byte {
	t.Helper()
	items, err := All(To(node), conn, machine+method, request)
	must(t, err)
	var packed bytes.Buffer
	for _, item := range items {
		if problem := item.In(1).Text(2); problem != "" {
			t.Fatal(problem)
		}
		packed.Write(item.Bytes(2))
	}
	unpacked, err := gzip.NewReader(&packed)
	must(t, err)
	reader := tar.NewReader(unpacked)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			t.Fatalf("%s: no %s", method, name)
		}
		must(t, err)
		if strings.Contains(header.Name, name) {
			content, err := io.ReadAll(reader)
			must(t, err)
			return content
		}
	}
}

// Catches: facts that differ from what our own client prints.
func TestFacts(t *testing.T) {
	node, conn := here(t)
	var memory struct {
		Fields []struct {
			Name  string
			Value uint64
		}
	}
	must(t, TalosctlJSON(&memory, "-n", node, "memory", "--verbose"))
	info := ask(t, conn, node, machine+"Memory", nil).In(2)
	if info.Number(1) != memory.Fields[0].Value || memory.Fields[0].Name != "MemTotal" {
		t.Errorf("%v, and ours is %v", info, memory.Fields[0])
	}
	var mounts struct {
		Mounts []struct{ Filesystem, MountedOn string }
	}
	must(t, TalosctlJSON(&mounts, "-n", node, "mounts"))
	if theirs := ask(t, conn, node, machine+"Mounts", nil).All(2); len(theirs) != len(mounts.Mounts) ||
		theirs[0].Text(4) != mounts.Mounts[0].MountedOn {
		t.Errorf("%d mounts, and ours are %d", len(theirs), len(mounts.Mounts))
	}
	processes := ask(t, conn, node, machine+"Processes", nil).All(2)
	if !slices.ContainsFunc(processes, func(p Message) bool { return p.Text(8) == "apid" && p.Number(7) > 0 }) {
		t.Error("no apid among the processes")
	}
	stats := ask(t, conn, node, machine+"Stats", Request{}.Text(1, "system")).All(2)
	if !slices.ContainsFunc(stats, func(s Message) bool { return s.Text(2) == "apid" && s.Number(4) > 0 }) {
		t.Error("no apid among the stats")
	}
	if name := ask(t, conn, node, machine+"Hostname", nil).Text(2); name != os.Getenv("HOSTNAME_OF_NODE") {
		t.Errorf("the hostname is %q", name)
	}
	sockets := ask(t, conn, node, machine+"Netstat", Request{}.Number(1, 2)).All(2)
	var ours struct {
		Sockets []struct {
			LocalPort      uint64
			State, Program string
		}
	}
	must(t, TalosctlJSON(&ours, "-n", node, "netstat", "--listening"))
	programs := map[uint64]string{}
	for _, socket := range ours.Sockets {
		if socket.State == "LISTEN" {
			programs[socket.LocalPort] = socket.Program
		}
	}
	for _, socket := range sockets {
		if socket.Number(6) == 10 && programs[socket.Number(3)] != socket.In(17).Text(2) {
			t.Errorf("port %d: %q, and ours is %q", socket.Number(3), socket.In(17).Text(2), programs[socket.Number(3)])
		}
	}
	if programs[50000] == "" || len(sockets) < 2 {
		t.Errorf("%d sockets", len(sockets))
	}
	interfaces := ask(t, conn, node, "/network.NetworkService/Interfaces", nil).All(2)
	if !slices.ContainsFunc(interfaces, func(i Message) bool { return strings.HasPrefix(i.Text(6), node+"/") }) {
		t.Errorf("no interface has %s", node)
	}
	if routes := ask(t, conn, node, "/network.NetworkService/Routes", nil).All(2); len(routes) == 0 || routes[0].Number(7) == 0 {
		t.Errorf("routes: %v", routes)
	}
	stat, err := Talosctl("-n", node, "read", "/proc/stat")
	must(t, err)
	system := ask(t, conn, node, machine+"SystemStat", nil)
	if boot := fmt.Sprintf("\nbtime %d\n", system.Number(2)); !strings.Contains(string(stat), boot) {
		t.Errorf("not in /proc/stat: %s", boot)
	}
	for method, field := range map[string]protowire.Number{"LoadAvg": 2, "CPUInfo": 2, "NetworkDeviceStats": 3, "DiskStats": 2} {
		if !ask(t, conn, node, machine+method, nil).Has(field) {
			t.Errorf("%s has no value", method)
		}
	}
	edges := ask(t, conn, node, "/inspect.InspectService/ControllerRuntimeDependencies", nil).All(2)
	if len(edges) < 20 {
		t.Errorf("%d edges", len(edges))
	}
	kubeconfig := archive(t, conn, node, nil, "Kubeconfig", "kubeconfig")
	if !bytes.Contains(kubeconfig, []byte("kind: Config")) {
		t.Errorf("kubeconfig: %s", kubeconfig)
	}
}

// Catches: an event stream that a client of 1.2 and later waits for, and one whose past has no status
// of the machine: `reboot --wait` of such a client ends by it.
func TestEvents(t *testing.T) {
	node, conn := here(t)
	ctx, cancel := context.WithTimeout(To(node), Patience)
	defer cancel()
	next, err := Stream(ctx, conn, machine+"Events", Request{}.Number(1, -1))
	must(t, err)
	first, err := next()
	must(t, err)
	if first.Has(2) {
		t.Errorf("the first event is %v", first)
	}
	found := map[string]bool{}
	for !found["MachineStatusEvent"] || !found["SequenceEvent"] {
		event, err := next()
		must(t, err)
		if event.In(1).Text(1) != node {
			t.Fatalf("an event of %q", event.In(1).Text(1))
		}
		name, ok := strings.CutPrefix(event.In(2).Text(1), "talos/runtime/machine.")
		if !ok {
			t.Fatalf("an event of type %q", event.In(2).Text(1))
		}
		found[name] = true
		if name == "MachineStatusEvent" && event.In(2).In(2).Number(1) != 4 {
			t.Errorf("the machine is %v", event.In(2).In(2))
		}
	}
}

// Catches: an error without the code that clients act on.
func TestErrors(t *testing.T) {
	node, conn := here(t)
	for method, code := range map[string]codes.Code{
		machine + "MakeCoffee":        codes.Unimplemented,
		"/coffee.Service/Make":        codes.Unimplemented,
		"/cosi.resource.State/Create": codes.PermissionDenied,
	} {
		if _, err := Unary(ToOne(node), conn, method, nil); status.Code(err) != code {
			t.Errorf("%s: %v", method, err)
		}
	}
	_, err := Unary(ToOne(node), conn, machine+"ServiceStart", Request{}.Text(1, "nope"))
	if status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
}

// Catches: roles that count for the first face alone.
func TestRoles(t *testing.T) {
	node, conn := here(t)
	made := ask(t, conn, node, machine+"GenerateClientConfiguration",
		Request{}.Text(1, "os:reader").Message(2, Request{}.Number(1, 3600)))
	reader, err := ReadIdentity(made.Bytes(5))
	must(t, err)
	readers := connect(t, os.Getenv("ENDPOINT"), node, reader)
	if ask(t, readers, node, machine+"Version", nil).In(2).Text(1) == "" {
		t.Error("a reader gets no version")
	}
	for method, request := range map[string]Request{
		"Reboot": nil, "ServiceStop": Request{}.Text(1, "apid"), "ApplyConfiguration": Request{}.Text(1, "x")} {
		_, err := Unary(ToOne(node), readers, machine+method, request)
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "not authorized") {
			t.Errorf("%s: %v", method, err)
		}
	}
	_, err = All(ToOne(node), readers, machine+"Read", Request{}.Text(1, "/etc/os-release"))
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("Read: %v", err)
	}
	stranger := connect(t, os.Getenv("ENDPOINT"), node, Identity{authority: administrator(t).authority})
	if _, err := Unary(context.Background(), stranger, machine+"Version", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}
}

// Catches: a config that is applied although it should only be looked at, a bad one that is taken, and
// words that scripts wait for.
func TestApplyConfiguration(t *testing.T) {
	node, conn := here(t)
	document, err := Talosctl("-n", node, "read", "/system/state/config.yaml")
	must(t, err)
	apply := func(text string, mode int64, dry bool) (Message, error) {
		request := Request{}.Text(1, text).Number(4, mode)
		if dry {
			request = request.Number(5, 1)
		}
		reply, err := Unary(ToOne(node), conn, machine+"ApplyConfiguration", request)
		return reply.In(1), err
	}
	if _, err := apply("machine: coffee\n", 2, false); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a bad config: %v", err)
	}
	changed := string(document) + "\n# by another client\n"
	dry, err := apply(changed, 2, true)
	must(t, err)
	if !strings.Contains(dry.Text(4), "(skipped in dry-run)") {
		t.Errorf("a dry run says %q", dry.Text(4))
	}
	done, err := apply(changed, 2, false)
	must(t, err)
	if done.Text(4) != "Applied configuration without a reboot" {
		t.Errorf("it says %q", done.Text(4))
	}
	now, err := Talosctl("-n", node, "read", "/system/state/config.yaml")
	must(t, err)
	if string(now) != changed {
		t.Error("the config is not what was applied")
	}
}
