package clients

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/grpc/status"
)

// Of a machine with a disk, a clock and a kernel of its own. Catches: a value of META under another key, or
// that is answered and not there; a time of another server than the one that was named; a kernel log that
// is another one than our own client shows.
func TestMachine(t *testing.T) {
	node, conn := here(t)
	const meta = "0x22"
	values := func() string {
		out, err := Talosctl("-n", node, "meta", "read")
		must(t, err)
		return string(out)
	}
	ask(t, conn, node, machine+"MetaWrite", Request{}.Number(1, 0x22).Text(2, "by another client"))
	if said := values(); !strings.Contains(said, "34    by another client") {
		t.Errorf("after MetaWrite of %s:\n%s", meta, said)
	}
	ask(t, conn, node, machine+"MetaDelete", Request{}.Number(1, 0x22))
	if said := values(); strings.Contains(said, "another") {
		t.Errorf("after MetaDelete of %s:\n%s", meta, said)
	}

	lines, err := All(ToOne(node), conn, machine+"Dmesg", nil)
	must(t, err)
	ours, err := Talosctl("-n", node, "dmesg")
	must(t, err)
	same := 0
	for _, line := range lines {
		// Each of us has its own words before the kernel's.
		if _, said, there := strings.Cut(string(line.Bytes(2)), "]: "); there && strings.Contains(string(ours), said) {
			same++
		}
	}
	if same < 50 {
		t.Errorf("of %d lines of the kernel %d are ours, too; the first is %q", len(lines), same, lines[0].Bytes(2))
	}

	sameTime(t, "Time", nil)
	sameTime(t, "TimeCheck", Request{}.Text(1, "10.5.0.1"), "--check", "10.5.0.1")
}

// As our own client is answered, be it with an error.
func sameTime(t *testing.T, method string, request Request, arguments ...string) {
	t.Helper()
	node, conn := here(t)
	reply, err := Unary(ToOne(node), conn, "/time.TimeService/"+method, request)
	out, ours := Talosctl(append([]string{"-n", node, "time"}, arguments...)...)
	if (err == nil) != (ours == nil) {
		t.Fatalf("%s: %v, and ours %v", method, err, ours)
	}
	if err != nil {
		if words := status.Convert(err).Message(); words == "" || !strings.Contains(ours.Error(), words) {
			t.Errorf("%s: %q, and ours %v", method, words, ours)
		}
		return
	}
	answer := reply.In(1)
	if server := answer.Text(2); server == "" || !strings.Contains(string(out), server) {
		t.Errorf("%s: of %q, and ours\n%s", method, server, out)
	}
	if answer.In(3).Number(1) < 1e9 || answer.In(4).Number(1) < 1e9 {
		t.Errorf("%s: %v", method, answer)
	}
}

// To $IMAGE. What becomes of it is for who runs this to see.
func TestUpgrade(t *testing.T) {
	node, conn := here(t)
	said := ask(t, conn, node, machine+"Upgrade", Request{}.Text(1, os.Getenv("IMAGE"))).Text(2)
	if said != "Upgrade request received" {
		t.Errorf("the answer is %q", said)
	}
}

func TestRollback(t *testing.T) {
	node, conn := here(t)
	ask(t, conn, node, machine+"Rollback", nil)
}
