package clients

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cosi-project/runtime/pkg/resource"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
)

// Providers of Terraform and cluster-api call a node in these sequences, from a machine without a config to
// one that is reset. Each repeats a call until a deadline, but for errors that it takes for final.

// A connection to a machine without a config whose key has this fingerprint, and to no other one.
func pinned(t *testing.T, fingerprint string) *grpc.ClientConn {
	t.Helper()
	config := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(state tls.ConnectionState) error {
		sum := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
		if base64.StdEncoding.EncodeToString(sum[:]) != fingerprint {
			return errors.New("the key has another fingerprint")
		}
		return nil
	}}
	conn, err := grpc.NewClient(os.Getenv("ENDPOINT")+":50000", grpc.WithTransportCredentials(credentials.NewTLS(config)))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Repeats a call until it succeeds, or fails with the code that is as good.
func eventually(t *testing.T, good codes.Code, call func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		err := call()
		if code := status.Code(err); err == nil || code == good {
			return
		} else if code == codes.InvalidArgument || time.Now().After(deadline) {
			t.Fatalf("final: %v", err)
		}
		time.Sleep(time.Second)
	}
}

// Catches: a machine that does not say that it has no config, one whose config goes to whoever has its
// address, and calls of a sequence that fail finally where the provider would have to try again.
func TestTerraform(t *testing.T) {
	node, conn := here(t)
	// A probe without a certificate says that it is in maintenance, one with a certificate that it is not yet up.
	probe := connect(t, os.Getenv("ENDPOINT"), node, Identity{})
	_, err := Unary(ToOne(node), probe, "/storage.StorageService/Disks", nil)
	must(t, err)
	if _, err = Unary(ToOne(node), conn, machine+"Version", nil); status.Code(err) != codes.Unavailable {
		t.Fatalf("with a certificate: %v", err)
	}
	config, err := os.ReadFile(os.Getenv("CONFIG"))
	must(t, err)
	apply := Request{}.Text(1, string(config)).Number(4, 1)
	wrong := sha256.Sum256([]byte("another machine"))
	_, err = Unary(context.Background(), pinned(t, base64.StdEncoding.EncodeToString(wrong[:])), machine+"ApplyConfiguration", apply)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "another fingerprint") {
		t.Fatalf("a wrong fingerprint: %v", err)
	}
	_, err = Unary(context.Background(), probe, "/storage.StorageService/Disks", nil)
	must(t, err) // it has got nothing
	_, err = Unary(context.Background(), pinned(t, os.Getenv("FINGERPRINT")), machine+"ApplyConfiguration", apply)
	must(t, err)

	eventually(t, codes.AlreadyExists, func() error {
		_, err := Unary(ToOne(node), conn, machine+"Bootstrap", nil)
		return err
	})
	// Applied again by the next plan, where nothing has changed.
	eventually(t, codes.AlreadyExists, func() error {
		_, err := Unary(ToOne(node), conn, machine+"Bootstrap", nil)
		return err
	})
	archive(t, conn, node, nil, "Kubeconfig", "kubeconfig")
	reply, err := Unary(ToOne(node), conn, machine+"ApplyConfiguration", apply)
	must(t, err)
	if words := reply.In(1).Text(4); words != "Applied configuration without a reboot" {
		t.Errorf("the same config again: %q", words)
	}
	ctx, resources := reading(t)
	for kind, id := range map[string]string{"MachineConfigs.config.talos.dev": "v1alpha1", "MachineStatuses.runtime.talos.dev": "machine"} {
		namespace := map[bool]string{true: "config", false: "runtime"}[id == "v1alpha1"]
		if _, err := resources.Get(ctx, resource.NewMetadata(namespace, kind, id, resource.VersionUndefined)); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	healthUntil(t, conn, node)
	// The newer service first, whose absence means the older one.
	_, err = All(ToOne(node), conn, "/machine.LifecycleService/Upgrade", nil)
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("LifecycleService: %v", err)
	}
	_, err = Unary(ToOne(node), conn, machine+"Upgrade", Request{}.Text(1, "http://10.5.0.1:5000/installer.tar"))
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("an upgrade to an archive without a digest: %v", err)
	}
}

// etcd and the node are well; Kubernetes has no image here, so its checks do not pass in this time.
func healthUntil(t *testing.T, conn *grpc.ClientConn, node string) {
	t.Helper()
	items, err := All(ToOne(node), conn, "/cluster.ClusterService/HealthCheck",
		Request{}.Message(1, Request{}.Number(1, 20)).Message(2, Request{}.Text(1, node)))
	if status.Code(err) != codes.DeadlineExceeded {
		t.Fatalf("health: %v", err)
	}
	var lines []string
	for _, item := range items {
		lines = append(lines, item.Text(2))
	}
	if said := strings.Join(lines, "\n"); !strings.Contains(said, "etcd to be healthy: OK") {
		t.Errorf("health says\n%s", said)
	}
}

// Of the control plane of cluster-api: what it reads each time that it reconciles, and the end of a machine.
// Catches: members without the names by which the provider knows its machines; a broken service that is none.
func TestClusterAPI(t *testing.T) {
	node, conn := here(t)
	if ask(t, conn, node, machine+"Version", nil).In(2).Text(1) == "" {
		t.Error("no version")
	}
	for _, service := range ask(t, conn, node, machine+"ServiceList", nil).All(2) {
		if health := service.In(4); health.Number(1) == 0 && health.Number(2) == 0 && service.Text(1) != "kubelet" {
			t.Errorf("%s is unhealthy: %s", service.Text(1), health.Text(3))
		}
	}
	members := ask(t, conn, node, machine+"EtcdMemberList", nil).All(3)
	if len(members) != 1 || members[0].Text(3) != os.Getenv("HOSTNAME_OF_NODE") {
		t.Errorf("members: %v", members)
	}
	items, err := All(To(node), conn, machine+"List", Request{}.Text(1, "/var/lib/etcd"))
	must(t, err)
	if len(items) == 0 || items[0].In(1).Text(1) != node {
		t.Errorf("/var/lib/etcd: %v", items)
	}
	// Without the leave, which the last member cannot; to maintenance, for the next cluster.
	stops(t, conn, node, machine+"Reset", Request{}.Number(1, 0).Number(2, 1))
}

// Catches: a machine that is reset and is not taken for a new one.
func TestIsNewAgain(t *testing.T) {
	probe := connect(t, os.Getenv("ENDPOINT"), os.Getenv("NODE"), Identity{})
	eventually(t, codes.OK, func() error {
		_, err := Unary(context.Background(), probe, "/storage.StorageService/Disks", nil)
		return err
	})
}
