package clients

import (
	"context"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const bundle = "/etc/ssl/certs/ca-certificates"

// applyTo sends a config in the mode no-reboot.
func applyTo(t *testing.T, conn *grpc.ClientConn, node, text string, dry bool) Message {
	t.Helper()
	request := Request{}.Text(1, text).Number(4, 2)
	if dry {
		request = request.Number(5, 1)
	}
	reply, err := Unary(ToOne(node), conn, machine+"ApplyConfiguration", request)
	must(t, err)
	return reply.In(1)
}

// Catches: a document that a dry run does not show, or applies; CAs that wait for a reboot, or stay
// when their document has left.
func TestTrustedRoots(t *testing.T) {
	node, conn := here(t)
	before, err := Talosctl("-n", node, "read", "/system/state/config.yaml")
	must(t, err)
	original, err := Talosctl("-n", node, "read", bundle)
	must(t, err)
	certificate := strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: administrator(t).certificate.Certificate[0]})))
	document := "---\napiVersion: v1alpha1\nkind: TrustedRootsConfig\nname: of-a-test\ncertificates: |\n    " +
		strings.ReplaceAll(certificate, "\n", "\n    ") + "\n"
	changed := strings.TrimSpace(string(before)) + "\n" + document
	details := applyTo(t, conn, node, changed, true).Text(4)
	for _, part := range []string{"Dry run summary:\n", "(skipped in dry-run)", "+kind: TrustedRootsConfig", "+name: of-a-test"} {
		if !strings.Contains(details, part) {
			t.Errorf("a dry run without %q: %s", part, details)
		}
	}
	shown := func() string {
		text, err := Talosctl("-n", node, "read", bundle)
		must(t, err)
		return string(text)
	}
	if shown() != string(original) {
		t.Error("a dry run has changed the bundle")
	}
	if said := applyTo(t, conn, node, changed, false).Text(4); said != "Applied configuration without a reboot" {
		t.Errorf("it says %q", said)
	}
	if text := shown(); text != string(original)+"\n# of-a-test\n"+certificate+"\n" {
		t.Errorf("the bundle ends with %q", text[max(0, len(text)-300):])
	}
	applyTo(t, conn, node, string(before), false)
	if shown() != string(original) {
		t.Error("the CAs are still in the bundle")
	}
}

// Catches: a followed log that arrives late or in large pieces; calls that leave no line in apid's log.
func TestStreaming(t *testing.T) {
	node, conn := here(t)
	ctx, cancel := context.WithTimeout(ToOne(node), Patience)
	defer cancel()
	request := Request{}.Text(1, "system").Text(2, "apid").Number(4, 1).Number(5, 0)
	next, err := Stream(ctx, conn, machine+"Logs", request)
	must(t, err)
	const calls = 20
	deadline := time.Now().Add(Patience)
	lines := 0
	for lines < calls && time.Now().Before(deadline) {
		ask(t, conn, node, machine+"Version", nil)
		item, err := next()
		if status.Code(err) == codes.DeadlineExceeded {
			break
		}
		must(t, err)
		lines += strings.Count(item.Text(2), "method=/machine.MachineService/Version")
	}
	if lines < calls {
		t.Errorf("%d lines of %d calls", lines, calls)
	}
}
