package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// A method that is asked of each node and of all of them, beside the command of our own client that
// reports the same: a field of each of its records (in one or two messages), and their key in the
// command's JSON.
type comparison struct {
	method      string
	request     Request
	field, then protowire.Number // then: in the messages of field; 0: field itself
	command     string
	key         string
	stream      bool
	notWorkers  bool
	some        bool // none would be wrong
}

var comparisons = []comparison{
	{method: machine + "Version", field: 2, then: 2, command: "version", key: "server.sha", some: true},
	{method: machine + "Version", field: 3, then: 2, command: "version", key: "server.mode", some: true},
	{method: machine + "ServiceList", field: 2, then: 1, command: "services", key: "services.id", some: true},
	{method: machine + "Mounts", field: 2, then: 4, command: "mounts", key: "mounts.mountedOn", some: true},
	{method: machine + "Stats", request: Request{}.Text(1, "system"), field: 2, then: 2, command: "stats",
		key: "stats.id", some: true},
	{method: machine + "Containers", request: Request{}.Text(1, "system"), field: 2, then: 2,
		command: "containers", key: "containers.id"},
	{method: "/network.NetworkService/Interfaces", field: 2, then: 4, command: "interfaces",
		key: "interfaces.hardwareAddress", some: true},
	{method: "/network.NetworkService/Interfaces", field: 2, then: 6, command: "interfaces",
		key: "interfaces.addresses", some: true},
	{method: "/network.NetworkService/Routes", field: 2, then: 2, command: "routes", key: "routes.destination",
		some: true},
	{method: "/storage.StorageService/Disks", field: 2, then: 3, command: "disks", key: "disks.device"},
	{method: "/inspect.InspectService/ControllerRuntimeDependencies", field: 2, then: 1,
		command: "inspect dependencies", key: "controllers.name", some: true},
	{method: machine + "List", request: Request{}.Text(1, "/etc"), field: 9, command: "list /etc",
		key: "relativeName", stream: true, some: true},
	{method: machine + "DiskUsage", request: Request{}.Number(1, 2).Number(2, 1).Text(4, "/usr/share"), field: 2,
		command: "usage -a -d 2 /usr/share", key: "name", stream: true, some: true},
	{method: machine + "ImageList", request: Request{}.Number(1, 2), field: 2, command: "image list",
		key: "images.name", stream: true},
	{method: machine + "ImageList", request: Request{}.Number(1, 1), field: 2, command: "image list --namespace system",
		key: "images.name", stream: true},
	{method: machine + "ImageList", request: Request{}.Number(1, 3), field: 2, command: "image list --namespace inmem",
		key: "images.name", stream: true},
	{method: machine + "EtcdMemberList", field: 3, then: 3, command: "etcd members", key: "members.name",
		notWorkers: true, some: true},
	{method: machine + "EtcdAlarmList", field: 2, then: 1, command: "etcd alarm list", key: "alarms.member",
		notWorkers: true},
}

// Each kind of text once, sorted: what comes in another order, or twice, is the same.
func sorted(all []string) []string {
	slices.Sort(all)
	return slices.Compact(all)
}

func (row comparison) of(message Message) (all []string) {
	add := func(value any) {
		switch v := value.(type) {
		case []byte:
			all = append(all, string(v))
		case uint64:
			all = append(all, fmt.Sprint(v))
		}
	}
	if row.then == 0 {
		for _, value := range message[row.field] {
			add(value)
		}
	}
	for _, inner := range message.All(row.field) {
		for _, value := range inner[row.then] {
			add(value)
		}
	}
	return all
}

// The values under "list.key" of each record of a document, or under "key" of the document.
func under(document any, path string) (all []string) {
	key, rest, more := strings.Cut(path, ".")
	switch value := document.(type) {
	case map[string]any:
		if !more {
			return under(value[key], "")
		}
		return under(value[key], rest)
	case []any:
		for _, item := range value {
			all = append(all, under(item, path)...)
		}
	case string:
		return []string{value}
	case float64:
		return []string{fmt.Sprintf("%.0f", value)}
	}
	return all
}

// By our own client, of one node.
func (row comparison) ours(t *testing.T, node string) (all []string) {
	t.Helper()
	out, err := Talosctl(append(strings.Fields(row.command), "-n", node, "-o", "json")...)
	must(t, err)
	documents := json.NewDecoder(strings.NewReader(string(out)))
	for documents.More() {
		var document map[string]any
		must(t, documents.Decode(&document))
		// A document of all nodes, which are the one that was asked, does not name it.
		if named, has := document["node"]; !has || named == node {
			all = append(all, under(document, row.key)...)
		}
	}
	return sorted(all)
}

func (row comparison) ask(t *testing.T, ctx context.Context, conn *grpc.ClientConn) []Message {
	t.Helper()
	if row.stream {
		items, err := All(ctx, conn, row.method, row.request)
		must(t, err)
		return items
	}
	reply, err := Unary(ctx, conn, row.method, row.request)
	must(t, err)
	return reply.All(1)
}

func everyNode() []string { return strings.Fields(os.Getenv("NODES")) }

// Three control-plane nodes and a worker, asked through one of them, one by one and all at once.
// Catches: the answer of another node than the named one, records that are lost or sent twice on its way through a
// second node, and an answer that is not what our own client prints of the same node.
func TestEveryNode(t *testing.T) {
	_, conn := here(t)
	for _, row := range comparisons {
		nodes := everyNode()
		if row.notWorkers {
			nodes = nodes[:3]
		}
		byNode := map[string][]string{}
		for _, answer := range row.ask(t, To(nodes...), conn) {
			name := answer.In(1).Text(1)
			if problem := answer.In(1).Text(2); problem != "" {
				t.Errorf("%s of %s: %s", row.method, name, problem)
			}
			byNode[name] = append(byNode[name], row.of(answer)...)
		}
		if _, known := byNode[""]; known || len(byNode) > len(nodes) {
			t.Errorf("%s: answers of %v", row.method, byNode)
		}
		for _, node := range nodes {
			var one []string
			for _, answer := range row.ask(t, ToOne(node), conn) {
				if answer.Has(1) {
					t.Errorf("%s of one node names it: %v", row.method, answer.In(1))
				}
				one = append(one, row.of(answer)...)
			}
			ours, one, among := row.ours(t, node), sorted(one), sorted(byNode[node])
			if !slices.Equal(one, ours) || !slices.Equal(among, ours) || (row.some && len(ours) == 0) {
				t.Errorf("%s of %s: %v, among others %v, and ours is %v", row.method, node, one, among, ours)
			}
		}
	}
}

// Values that change from one moment to the next are not compared but looked at. Catches: a node that is left
// out, or answers for another.
func TestEveryNodeTells(t *testing.T) {
	_, conn := here(t)
	nodes := everyNode()
	for method, field := range map[string]protowire.Number{
		machine + "Hostname": 2, machine + "Memory": 2, machine + "Processes": 2, machine + "LoadAvg": 2,
		machine + "SystemStat": 2, machine + "CPUInfo": 2, machine + "NetworkDeviceStats": 3, machine + "DiskStats": 2,
		machine + "Netstat": 2, machine + "LogsContainers": 2,
	} {
		reply, err := Unary(To(nodes...), conn, method, nil)
		must(t, err)
		seen := map[string]bool{}
		for i, answer := range reply.All(1) {
			if name := answer.In(1).Text(1); i >= len(nodes) || name != nodes[i] {
				t.Errorf("%s: answer %d is of %s", method, i, name)
			}
			if !answer.Has(field) {
				t.Errorf("%s: %v", method, answer)
			}
			seen[string(answer.Bytes(field))] = true
		}
		if len(reply.All(1)) != len(nodes) || (method == machine+"Hostname" && len(seen) != len(nodes)) {
			t.Errorf("%s: %d answers, %v", method, len(reply.All(1)), seen)
		}
	}
	// There may be none to report.
	frequencies, err := Unary(To(nodes...), conn, machine+"CPUFreqStats", nil)
	must(t, err)
	for i, answer := range frequencies.All(1) {
		if answer.In(1).Has(2) || answer.In(1).Text(1) != nodes[i] {
			t.Errorf("CPUFreqStats: %v", answer)
		}
	}
	for _, row := range []comparison{
		{method: machine + "Read", request: Request{}.Text(1, "/etc/hostname"), field: 2},
		{method: machine + "Logs", request: Request{}.Text(1, "system").Text(2, "apid").Number(5, 2), field: 2},
		{method: machine + "Copy", request: Request{}.Text(1, "/etc/ssl"), field: 2},
	} {
		row.stream = true
		texts := map[string]string{}
		for _, item := range row.ask(t, To(nodes...), conn) {
			texts[item.In(1).Text(1)] += item.Text(row.field)
		}
		for _, node := range nodes {
			if texts[node] == "" || len(texts) != len(nodes) {
				t.Errorf("%s of %s: %q of %d nodes", row.method, node, texts[node], len(texts))
			}
		}
	}
	// The first event of each node says that it is watched.
	ctx, cancel := context.WithTimeout(To(nodes...), Patience)
	defer cancel()
	next, err := Stream(ctx, conn, machine+"Events", Request{}.Number(1, -1))
	must(t, err)
	began, status := map[string]bool{}, map[string]bool{}
	for len(status) < len(nodes) {
		event, err := next()
		must(t, err)
		name := event.In(1).Text(1)
		if !began[name] && event.Has(2) {
			t.Errorf("the first event of %s is %v", name, event)
		}
		began[name] = true
		if strings.HasSuffix(event.In(2).Text(1), ".MachineStatusEvent") {
			status[name] = true
		}
	}
}

// Three members vote. Catches: what one member says of another as its own, and a second answer to what
// is done on each of several.
func TestEveryMember(t *testing.T) {
	_, conn := here(t)
	nodes := everyNode()[:3]
	reply, err := Unary(To(nodes...), conn, machine+"EtcdStatus", nil)
	must(t, err)
	members, leaders := map[uint64]bool{}, map[uint64]bool{}
	for _, answer := range reply.All(1) {
		members[answer.In(2).Number(10)] = true
		leaders[answer.In(2).Number(4)] = true
	}
	if len(members) != 3 || len(leaders) != 1 {
		t.Errorf("members %v, leaders %v", members, leaders)
	}
	for _, member := range ask(t, conn, nodes[1], machine+"EtcdMemberList", nil).All(3) {
		if !members[member.Number(2)] {
			t.Errorf("%v is not among %v", member, members)
		}
	}
	reply, err = Unary(To(nodes...), conn, machine+"EtcdAlarmDisarm", nil)
	must(t, err)
	for _, answer := range reply.All(1) {
		if answer.In(1).Has(2) || answer.Has(2) {
			t.Errorf("without alarms: %v", answer)
		}
	}
	if len(reply.All(1)) != 3 {
		t.Errorf("%d answers", len(reply.All(1)))
	}
	ask(t, conn, nodes[2], machine+"EtcdDefragment", nil)
	// The leadership goes to another, who is named.
	for i, node := range nodes {
		own := ask(t, conn, node, machine+"EtcdStatus", nil).In(2)
		if own.Number(10) != own.Number(4) {
			continue
		}
		name := ask(t, conn, node, machine+"EtcdForfeitLeadership", nil).Text(2)
		if now := ask(t, conn, nodes[(i+1)%3], machine+"EtcdStatus", nil).In(2).Number(4); name == "" || now == own.Number(10) {
			t.Errorf("%q leads now, as %x", name, now)
		}
		return
	}
	t.Error("there is no leader")
}

// Kubernetes does not run here, so a check ends with what it lacks. Catches: other lines than our own
// client prints, and a check that outlives the time that it was given.
func TestHealth(t *testing.T) {
	_, conn := here(t)
	nodes := everyNode()
	var cluster Request
	arguments := []string{"-n", nodes[0], "health", "--wait-timeout", "3s"}
	for _, node := range nodes[:3] {
		cluster = cluster.Text(1, node)
		arguments = append(arguments, "--control-plane-nodes", node)
	}
	for _, node := range nodes[3:] {
		cluster = cluster.Text(2, node)
		arguments = append(arguments, "--worker-nodes", node)
	}
	items, err := All(ToOne(nodes[0]), conn, "/cluster.ClusterService/HealthCheck",
		Request{}.Message(1, Request{}.Number(1, 3)).Message(2, cluster))
	out, ours := Talosctl(arguments...)
	if ours == nil || status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("it ends with %v, and ours with %v", err, ours)
	}
	lines := string(out) + ours.Error()
	if len(items) < 3 || !strings.Contains(lines, items[0].Text(2)) || !strings.Contains(lines, items[1].Text(2)) {
		t.Errorf("%v, and ours are %s", items, lines)
	}
}

// Sends a snapshot as clients do before a bootstrap from it.
func recoverFrom(t *testing.T, conn *grpc.ClientConn, node string, items []Message) (Message, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ToOne(node), Patience)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true}, machine+"EtcdRecover")
	must(t, err)
	for _, item := range items {
		if stream.SendMsg(Request{}.Text(2, item.Text(2))) != nil {
			break // the answer reports it
		}
	}
	must(t, stream.CloseSend())
	var answer []byte
	if err := stream.RecvMsg(&answer); err != nil {
		return nil, err
	}
	return Parse(answer)
}

// After the last of three nodes has left the cluster. Catches: a snapshot that does not arrive, one that a
// member takes, and a second cluster beside the one that there is.
func TestEtcdRecover(t *testing.T) {
	member, conn := here(t)
	left := everyNode()[2]
	items, err := All(ToOne(member), conn, machine+"EtcdSnapshot", nil)
	must(t, err)
	if _, err := recoverFrom(t, conn, member, items); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a member takes a snapshot: %v", err)
	}
	reply, err := recoverFrom(t, conn, left, items)
	must(t, err)
	if len(reply.All(1)) != 1 || reply.In(1).Has(1) {
		t.Errorf("%v", reply)
	}
	// Not what programs take for success.
	_, err = Unary(ToOne(left), conn, machine+"Bootstrap", Request{}.Number(1, 1))
	var snapshot []byte
	for _, item := range items {
		snapshot = append(snapshot, item.Bytes(2)...)
	}
	file := filepath.Join(t.TempDir(), "db")
	must(t, os.WriteFile(file, snapshot, 0o600))
	_, ours := Talosctl("-n", left, "bootstrap", "--recover-from", file)
	if status.Code(err) != codes.FailedPrecondition || ours == nil || !strings.Contains(ours.Error(), status.Convert(err).Message()) {
		t.Errorf("a second cluster: %v, and ours is %v", err, ours)
	}
}
