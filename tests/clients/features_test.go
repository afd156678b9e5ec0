package clients

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A resource as typed readers of the original decode it.
func typed(t *testing.T, namespace, kind, id string) (Message, error) {
	t.Helper()
	node, conn := here(t)
	reply, err := Unary(ToOne(node), conn, "/cosi.resource.State/Get",
		Request{}.Text(1, namespace).Text(2, kind).Text(3, id))
	if err != nil {
		return nil, err
	}
	if got := reply.In(1).In(1); got.Text(2) != kind || got.Text(3) != id {
		t.Errorf("%s/%s is %v", kind, id, got)
	}
	if reply.In(1).In(2).Text(2) == "" {
		t.Errorf("%s/%s has no YAML", kind, id)
	}
	return reply.In(1).In(2).In(1), nil
}

// Of a control-plane node in a container. Catches: a feature that is off and has no resource that says so,
// hardware of the host that a container shows as its own, and a kind that clients ask for and that is refused.
func TestFeatures(t *testing.T) {
	for _, row := range []struct {
		namespace, kind, id string
		check               func(Message) bool
	}{
		{"runtime", "SecurityStates.talos.dev", "securitystate", func(m Message) bool { return m.Number(1) == 0 }},
		{"runtime", "PlatformMetadatas.talos.dev", "platformmetadata", func(m Message) bool { return m.Text(1) == "container" }},
		{"config", "DiscoveryConfigs.cluster.talos.dev", "cluster", func(m Message) bool { return m.Number(1) == 0 }},
		{"config", "KubernetesAccessConfigs.cluster.talos.dev", "config", func(m Message) bool { return m.Number(1) == 0 }},
		{"cri", "ImageCacheConfigs.cri.talos.dev", "image-cache", func(m Message) bool { return m.Number(1) == 1 && m.Number(3) == 1 }},
		{"network", "HostDNSConfigs.net.talos.dev", "config", func(m Message) bool { return m.Number(1) == 0 }},
		{"cluster", "Infos.cluster.talos.dev", "current", func(m Message) bool { return m.Text(2) == "clients" }},
		{"files", "EtcFileStatuses.files.talos.dev", "hosts", func(m Message) bool { return m.Text(1) != "" }},
		{"files", "EtcFileStatuses.files.talos.dev", "resolv.conf", func(m Message) bool { return m.Text(1) != "" }},
		{"runtime", "MetaLoads.runtime.talos.dev", "meta-loaded", func(m Message) bool { return m.Number(1) == 1 }},
		{"runtime", services, "apid", func(m Message) bool { return m.Number(1) == 1 && m.Number(2) == 1 }},
	} {
		message, err := typed(t, row.namespace, row.kind, row.id)
		if err != nil || !row.check(message) {
			t.Errorf("%s/%s: %v, %v", row.kind, row.id, message, err)
		}
	}
	node, conn := here(t)
	for kind, namespace := range map[string]string{
		"SystemInformations.hardware.talos.dev":   "hardware",
		"Processors.hardware.talos.dev":           "hardware",
		"Affiliates.cluster.talos.dev":            "cluster-raw",
		"Diagnostics.runtime.talos.dev":           "runtime",
		"ExtensionStatuses.runtime.talos.dev":     "runtime",
		"SiderolinkStatuses.siderolink.talos.dev": "config",
		"KubeSpanPeerStatuses.kubespan.talos.dev": "kubespan",
		"NfTablesChains.net.talos.dev":            "network",
		"KubePrismStatuses.kubernetes.talos.dev":  "k8s",
		"WatchdogTimerStatuses.runtime.talos.dev": "runtime",
		"ImageCacheConfigs.cri.talos.dev":         "runtime", // of another namespace: none
	} {
		items, err := All(ToOne(node), conn, "/cosi.resource.State/List", Request{}.Text(1, namespace).Text(2, kind))
		if err != nil || len(items) != 0 {
			t.Errorf("%s: %d, %v", kind, len(items), err)
		}
	}
	_, err := typed(t, "network", "NfTablesChains.net.talos.dev", "ingress")
	if status.Code(err) != codes.NotFound {
		t.Errorf("a chain that is not there: %v", err)
	}
}

// Once etcd runs. Catches: a member under an id that is not the one etcd has.
func TestLocalMember(t *testing.T) {
	node, conn := here(t)
	member, err := typed(t, "etcd", "EtcdMembers.etcd.talos.dev", "local")
	must(t, err)
	name := ask(t, conn, node, machine+"Hostname", nil).Text(2)
	for _, one := range ask(t, conn, node, machine+"EtcdMemberList", Request{}.Number(1, 1)).All(3) {
		if one.Text(3) == name {
			if member.Text(1) != fmt.Sprintf("%016x", one.Number(2)) {
				t.Errorf("%q, and etcd has %x", member.Text(1), one.Number(2))
			}
			return
		}
	}
	t.Errorf("etcd has no member %q", name)
}

// Catches: another number of events than a client asks for, ids that do not rise, and events that are left
// out or repeated behind an id.
func TestTailOfEvents(t *testing.T) {
	node, conn := here(t)
	read := func(request Request, count int) (ids []string) {
		ctx, cancel := context.WithTimeout(ToOne(node), Patience)
		defer cancel()
		next, err := Stream(ctx, conn, machine+"Events", request)
		must(t, err)
		first, err := next()
		must(t, err)
		if first.Has(2) {
			t.Errorf("the first event is %v", first)
		}
		for len(ids) < count {
			event, err := next()
			must(t, err)
			if !event.Has(2) || len(event.Text(3)) != 20 {
				t.Fatalf("an event is %v", event)
			}
			ids = append(ids, event.Text(3))
		}
		return
	}
	all := read(Request{}.Number(1, 8), 8)
	for i := 1; i < len(all); i++ {
		if all[i-1] >= all[i] {
			t.Errorf("%s is followed by %s", all[i-1], all[i])
		}
	}
	for i := 0; i+1 < len(all); i++ {
		behind := read(Request{}.Text(2, all[i]), len(all)-1-i)
		if behind[0] != all[i+1] || behind[len(behind)-1] != all[len(all)-1] {
			t.Errorf("behind %s: %v, not %v", all[i], behind, all[i+1:])
		}
	}
}

// Catches: another number of lines than a client asks for, and a console of a container that nobody can read.
func TestLines(t *testing.T) {
	node, conn := here(t)
	for _, count := range []int{0, 1, 3} {
		items, err := All(ToOne(node), conn, machine+"Logs",
			Request{}.Text(1, "system").Text(2, "machined").Number(5, int64(count)))
		must(t, err)
		text := ""
		for _, item := range items {
			text += item.Text(2)
		}
		if strings.Count(text, "\n") != count {
			t.Errorf("%d lines are %q", count, text)
		}
	}
	_, err := All(ToOne(node), conn, machine+"Logs", Request{}.Text(1, "system").Text(2, "nope"))
	if message := status.Convert(err).Message(); message != `log "nope" was not registered` {
		t.Errorf("an unknown log: %q", message)
	}
	lines, err := All(ToOne(node), conn, machine+"Dmesg", nil)
	must(t, err)
	if len(lines) == 0 || !strings.HasPrefix(lines[0].Text(2), "user:    info: [") {
		t.Errorf("%d lines, the first %v", len(lines), lines)
	}
}
