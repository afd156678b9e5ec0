// Whole runs of the commands that inspect a node: get -o jsonpath, netstat, image list, usage,
// processes, cgroups, inspect, pcap.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <stdlib.h>
#include <termios.h>

#include "common/base/file.h"
#include "common/yaml/yaml.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Looking = ClusterTest;

// Returns 0 if a YAML parser refuses the text; JSON is YAML.
size_t documentsIn(const std::string& text) {
  Problems problems;
  codec::YamlStream stream(kj::StringPtr(text.c_str(), text.size()), "output", problems);
  return problems.size() > 0 ? 0 : stream.documents().size();
}

// Catches: another part of a resource than the requested part, a resource without its own line, a
// table header among values, a template that is checked after the call to the node.
TEST_F(Looking, GetPrintsAPartOfEachResource) {
  EXPECT_EQ(
      c.run({"-n", "10.0.0.2", "get", "svc", "-o", "jsonpath={.metadata.id}={.spec.healthy}"}), 0);
  EXPECT_EQ(out(), "apid=true\nmachined=false\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "svc", "apid", "-ojsonpath={.node}"}), 0);
  EXPECT_EQ(out(), "10.0.0.2\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.4", "get", "svc", "-o", "jsonpath={.a"}), 1);
  EXPECT_EQ(err(), "error: jsonpath:1:4: expected \"}\" at the end of the expression\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "svc", "-o", "jsonpath="}), 1);
  EXPECT_THAT(err(), HasSubstr("must be one of table, yaml, json, tree, jsonpath="));
}

// Catches: a manifest of the documents that is only "not found", so that the reader looks for a
// mistake; the same answer for an unknown id.
TEST_F(Looking, GetSaysWhyAManifestOfTheDocumentsIsNotThere) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "manifests", "01-csr-approver-role-binding",
                   "--namespace=controlplane", "-o", "yaml"}),
            1);
  EXPECT_EQ(err(),
            "10.0.0.2: there is no manifest \"01-csr-approver-role-binding\": kubed approves "
            "the certificates of workers' kubelets; a binding for the bootstrap token would do so "
            "for any name\n");
  EXPECT_THAT(out(), StartsWith("---\nnode: 10.0.0.2\nerror:\n    kind: NotFound\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "Manifests.kubernetes.talos.dev",
                   "02-kube-system-sa-role-binding"}),
            1);
  EXPECT_THAT(err(),
              HasSubstr("there is no manifest \"02-kube-system-sa-role-binding\": each part "
                        "of the system has a service account with the rights that it needs"));
  EXPECT_EQ(out(), "");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "manifests", "01-other"}), 1);
  EXPECT_THAT(err(), HasSubstr("resource \"01-other\" doesn't exist"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "staticpods", "01-csr-approver-role-binding"}), 1);
  EXPECT_THAT(err(), HasSubstr("\"01-csr-approver-role-binding\" doesn't exist"));
}

TEST_F(Looking, VersionAsJsonHasTwoSpellings) {
  EXPECT_EQ(c.run({"version", "--client", "--json"}), 0);
  auto json = out();
  EXPECT_THAT(json, StartsWith("{\n    \"client\": {\n"));
  EXPECT_EQ(c.run({"version", "--client", "-o", "json"}), 0);
  EXPECT_EQ(out(), json);
  EXPECT_EQ(c.run({"version", "--client", "--short"}), 0);
  EXPECT_THAT(out(), StartsWith("Client:\nTalos v"));
}

// Catches: output that a parser of one document refuses, a lost failure of a node, a table header
// without rows.
TEST_F(Looking, VersionIsOneDocument) {
  node("10.0.0.3").off = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "version", "-o", "json"}), 0);
  auto json = out();
  EXPECT_THAT(json,
              AllOf(StartsWith("{\n    \"client\": {\n"),
                    HasSubstr("\n    \"server\": [\n        {\n            \"node\": \"10.0.0.2\""),
                    HasSubstr("\n            \"node\": \"10.0.0.3\",\n            \"error\": {"),
                    EndsWith("\n        }\n    ]\n}\n")));
  EXPECT_EQ(documentsIn(json), 1u);
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "version", "-o", "yaml"}), 0);
  auto yaml = out();
  EXPECT_THAT(yaml, AllOf(StartsWith("client:\n    tag: "),
                          HasSubstr("\nserver:\n    - node: 10.0.0.2\n      "),
                          HasSubstr("\n    - node: 10.0.0.3\n      error:\n          kind: ")));
  EXPECT_EQ(documentsIn(yaml), 1u);
  err();
  EXPECT_EQ(c.run({"-n", "10.0.0.3", "version"}), 1);
  EXPECT_THAT(out(), AllOf(StartsWith("Client:\n"), Not(HasSubstr("Server:"))));
  EXPECT_EQ(err(), "error: 10.0.0.3: 10.0.0.3:50000: connection refused\n");
  EXPECT_EQ(c.run({"-e", "127.0.0.3", "-n", "10.0.0.3", "version", "-o", "json"}), 1);
  EXPECT_EQ(documentsIn(out()), 1u);
}

// Catches: flags that select other sockets, a pod whose namespace is ignored.
TEST_F(Looking, NetstatShowsWhatTheFlagsChoose) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "netstat"}), 0);
  EXPECT_EQ(
      out(),
      "NODE       PROTO   RECV-Q   SEND-Q   LOCAL ADDRESS    FOREIGN ADDRESS   STATE\n"
      "10.0.0.2   tcp     0        12       10.0.0.2:50000   10.0.0.9:4711     ESTABLISHED\n");
  EXPECT_EQ(node("10.0.0.2").process, 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "netstat", "-a", "-t", "-p", "-x"}), 0);
  EXPECT_EQ(out(),
            "NODE       PROTO   RECV-Q   SEND-Q   LOCAL ADDRESS    FOREIGN ADDRESS   STATE         "
            "UID   INODE   PID/PROGRAM\n"
            "10.0.0.2   tcp     0        0        0.0.0.0:50000    0.0.0.0:*         LISTEN        "
            "0     0       -\n"
            "10.0.0.2   tcp     0        12       10.0.0.2:50000   10.0.0.9:4711     ESTABLISHED   "
            "50    99      7/apid\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "netstat", "-l", "-6"}), 0);
  EXPECT_EQ(out(),
            "NODE       PROTO   RECV-Q   SEND-Q   LOCAL ADDRESS   FOREIGN ADDRESS   STATE\n"
            "10.0.0.2   udp6    0        0        [::]:68         [::]:*            \n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "netstat", "coredns"}), 1);
  EXPECT_THAT(err(), HasSubstr("\"coredns\" is not a valid pod; use <namespace>/<pod>"));
}

// Catches: sockets without their pod, sockets of a host-network pod twice, a pod that ends
// meanwhile and fails the others, documents without their pod.
TEST_F(Looking, NetstatShowsTheSocketsOfAllPods) {
  node("10.0.0.2").pods.pods = {{"default/web", 7, "4026532001"},
                                {"default/gone", 8, "4026532002", true},
                                {"kube-system/kube-proxy", 9, "4026531840"},
                                {"kube-system/z", 10, "4026532003"}};
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "netstat", "-k"}), 0);
  EXPECT_EQ(
      out(),
      "NODE       PROTO   RECV-Q   SEND-Q   LOCAL ADDRESS     FOREIGN ADDRESS   STATE         "
      "POD\n"
      "10.0.0.2   tcp     0        12       10.0.0.2:50000    10.0.0.9:4711     ESTABLISHED   "
      "-\n"
      "10.0.0.2   tcp     0        0        10.244.0.2:1007   10.96.0.1:443     ESTABLISHED   "
      "default/web\n"
      "10.0.0.2   tcp     0        0        10.244.0.2:1010   10.96.0.1:443     ESTABLISHED   "
      "kube-system/z\n");
  EXPECT_EQ(err(), "");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "netstat", "--pods", "-o", "json"}), 0);
  EXPECT_THAT(out(), AllOf(StartsWith("{\n    \"node\": \"10.0.0.2\",\n    \"sockets\": ["),
                           HasSubstr("\n{\n    \"node\": \"10.0.0.2\",\n    \"pod\": "
                                     "\"default/web\",\n    \"sockets\": [")));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "netstat", "--pods", "-o", "yaml"}), 0);
  auto yaml = out();
  EXPECT_EQ(documentsIn(yaml), 3u);
  EXPECT_THAT(yaml, HasSubstr("---\nnode: 10.0.0.2\npod: default/web\nsockets:\n"));
  node("10.0.0.2").pods.error = "Permission denied";
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "netstat", "-k"}), 0);
  EXPECT_THAT(out(), AllOf(HasSubstr("10.0.0.3"), Not(HasSubstr("10.0.0.2   "))));
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: /proc/self/ns: Permission denied"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "netstat", "-k", "default/web"}), 1);
  EXPECT_THAT(err(), HasSubstr("use --pods or name a pod, not both"));
}

// Catches: images of pods among the images that the node itself runs, a namespace without images
// that fails, an unknown namespace that looks empty.
TEST_F(Looking, ImagesAreThoseOfTheNamespace) {
  auto images = [&](const char* space) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "image", "list", "--namespace", space, "-o", "json"}), 0);
    auto text = out();
    return std::string(text.find("/kubelet:") != text.npos ? "kubelet " : "") +
           (text.find("/pause:") != text.npos ? "pause" : "");
  };
  EXPECT_EQ(images("cri"), "kubelet pause");
  EXPECT_EQ(images("system"), "") << "without a kubelet";
  EXPECT_EQ(images("inmem"), "");
  node("10.0.0.2").kubernetes.release = kj::str("1.34.4");
  EXPECT_EQ(images("system"), "kubelet ");
  EXPECT_EQ(images("inmem"), "");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "image", "list", "--namespace", "inmem"}), 0);
  EXPECT_EQ(out(), "NODE   IMAGE   DIGEST   SIZE   CREATED\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "image", "list", "--namespace", "k8s.io"}), 1);
  EXPECT_EQ(out(), "");
  EXPECT_THAT(err(), HasSubstr("must be one of system, cri, inmem"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "image", "pull", "x", "--namespace", "system"}), 1);
  EXPECT_THAT(err(), HasSubstr("a node has one store for all images"));
}

// Catches: a missing path with the exit status of a measured path, an unreadable folder below a
// path with the exit status of a missing path, one node's failure that hides the others' answers.
TEST_F(Looking, UsageOfAMissingPathFails) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "usage", "/var"}), 0);
  EXPECT_EQ(out(), "NODE       SIZE   NAME\n10.0.0.2   4096   .\n");
  EXPECT_EQ(err(), "10.0.0.2: /var/private: Permission denied\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "du", "/var", "/vra"}), 1);
  EXPECT_THAT(out(), HasSubstr("4096"));
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: /vra: No such file or directory\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "du", "/vra", "-o", "json"}), 1);
  EXPECT_THAT(out(), HasSubstr("\"error\":\"No such file or directory\""));
  node("10.0.0.3").off = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "du", "/var"}), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "du", "/vra"}), 1);
}

// Catches: a watch that ends in a pipe, or that moves the reader's cursor; one table instead of one
// each second.
TEST_F(Looking, ProcessesAreWatchedInAPipe) {
  auto interrupt = kj::newPromiseAndFulfiller<void>();
  auto run = c.start({"-n", "10.0.0.2", "processes", "-w"}, kj::mv(interrupt.promise));
  c.settle();
  auto once =
      "NODE      PID  STATE  THREADS  CPU-TIME  VIRTMEM  RESMEM  COMMAND\n"
      "10.0.0.2  7    S      0        0.00      0 B      0 B     apid\n\n";
  EXPECT_EQ(out(), once);
  c.settle();
  EXPECT_EQ(out(), "");
  c.clock.advanceTo(c.clock.now() + 1 * kj::SECONDS);
  c.settle();
  EXPECT_EQ(out(), once);
  interrupt.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(run)), 0);
}

// Catches: a key that waits for a node that does not answer; a table that is not sorted again; a
// terminal that is left without echo, or on the alternate screen.
TEST_F(Looking, ProcessesAreWatchedOnATerminal) {
  int raw;
  KJ_SYSCALL(raw = posix_openpt(O_RDWR | O_NOCTTY));
  kj::AutoCloseFd keyboard(raw);
  KJ_SYSCALL(grantpt(keyboard));
  KJ_SYSCALL(unlockpt(keyboard));
  KJ_SYSCALL(raw = open(ptsname(keyboard), O_RDWR | O_NOCTTY));
  kj::AutoCloseFd terminal(raw);
  auto press = [&](kj::StringPtr keys) {
    kj::FdOutputStream(keyboard.get()).write(keys.begin(), keys.size());
    pollfd arrives{terminal, POLLIN, 0};  // the kernel passes keys on later
    EXPECT_EQ(1, poll(&arrives, 1, 60'000));
    c.settle();
  };
  auto echoes = [&]() {
    struct termios now;
    KJ_SYSCALL(tcgetattr(terminal, &now));
    return (now.c_lflag & ECHO) != 0 && (now.c_lflag & ICANON) != 0;
  };
  c.deps->input = terminal;
  c.test.console.terminal = true;
  node("10.0.0.2").processMemory = 2'000'000;
  node("10.0.0.3").processCpuMs = 5'000;
  auto run = c.start({"-n", "10.0.0.2,10.0.0.3", "processes", "-w"});
  c.settle();
  auto first = out();
  EXPECT_THAT(first, HasSubstr("\x1b[?1049h"));
  EXPECT_LT(first.find("10.0.0.2"), first.find("10.0.0.3"));
  EXPECT_FALSE(echoes());
  node("10.0.0.2").hangs = true;
  c.clock.advanceTo(c.clock.now() + 1 * kj::SECONDS);
  press("c");
  EXPECT_THAT(out(), AllOf(HasSubstr("\x1b[2;8H\x1b[0m3"), HasSubstr("\x1b[3;8H2")));
  press("rq");
  EXPECT_EQ(c.finish(kj::mv(run)), 0);
  EXPECT_THAT(out(), EndsWith("\x1b[?25h\x1b[?1049l"));
  EXPECT_TRUE(echoes());
}

// Catches: values that the kernel does not count shown as zero, or as no limit.
TEST_F(Looking, CgroupsAreATreeWithTheColumnsOfThePreset) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cgroups"}), 0);
  EXPECT_EQ(out(),
            "NODE       NAME       PROCESSES   MEMORY   MEMORY MAX   CPU     TASKS\n"
            "10.0.0.2   .          0           -        -            -       -\n"
            "10.0.0.2   └─system   0           -        -            -       -\n"
            "10.0.0.2     └─apid   2           12 MB    max          1.50s   -\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cgroups", "--preset", "cpu"}), 0);
  EXPECT_THAT(out(), HasSubstr("  └─apid   1.50s   0.00s   0.00s    -        1.50         -\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cgroups", "--preset", "swap"}), 0);
  EXPECT_THAT(out(), HasSubstr("  └─apid   -         0 B\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cgroups", "--preset", "cpuset"}), 0);
  EXPECT_EQ(out(),
            "NODE       NAME       CPUS    CPUS IN EFFECT   MEMORY NODES   MEMORY NODES IN EFFECT\n"
            "10.0.0.2   .          -       -                -              -\n"
            "10.0.0.2   └─system   -       -                -              -\n"
            "10.0.0.2     └─apid   0-1,3   0-1              inherited      0\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cgroups", "--preset", "psi"}), 0);
  EXPECT_THAT(out(), HasSubstr("  └─apid   -          1.25%         0.00%         -         -\n"));
}

// Catches: an edge in the wrong direction, a lost id, a type that is declared twice.
TEST_F(Looking, DependenciesAreAGraph) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "inspect", "dependencies"}), 0);
  auto graph = out();
  EXPECT_EQ(graph,
            "digraph {\n"
            "  \"config:MachineConfigs.config.talos.dev\" [shape=\"note\", style=\"filled\", "
            "fillcolor=\"azure2\"];\n"
            "  \"config:MachineTypes.config.talos.dev\" [shape=\"note\", style=\"filled\", "
            "fillcolor=\"azure2\"];\n"
            "  \"config.MachineTypeController\" [shape=\"box\"];\n"
            "  \"config:MachineConfigs.config.talos.dev\" -> \"config.MachineTypeController\" "
            "[label=\"v1alpha1\"];\n"
            "  \"config.MachineTypeController\" -> \"config:MachineTypes.config.talos.dev\" "
            "[style=\"bold\"];\n"
            "  \"vipd\" [shape=\"box\", style=\"rounded\"];\n"
            "  \"config:MachineTypes.config.talos.dev\" -> \"vipd\";\n"
            "}\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "inspect", "dependencies", "--with-resources"}), 0);
  EXPECT_THAT(out(), HasSubstr("  subgraph \"cluster_config:MachineTypes.config.talos.dev\" {\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "inspect", "dependencies"}), 1);
  EXPECT_EQ(err(),
            "error: command \"inspect dependencies\" is not supported with multiple nodes "
            "(10.0.0.2, 10.0.0.3); name one with --nodes\n");
}

// Catches: a filter that is not sent, a file that is overwritten, counts that are not shown.
TEST_F(Looking, ACaptureGoesToAFile) {
  auto path = std::string(c.folder.cStr()) + "/x.pcap";
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap", "-i", "lo", "--duration", "2s", "-o", path.c_str()}),
            0);
  EXPECT_EQ(node("10.0.0.2").captured, "lo 4096 2000 20");
  EXPECT_EQ(readFile(path.c_str()), "pcap");
  EXPECT_EQ(err(), "");  // all packets arrived
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap", "-i", "busy", "--duration", "2s"}), 0);
  EXPECT_EQ(err(), "3 packets captured, 1 lost because they came too fast\n");
  EXPECT_EQ(out(), "pcap");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap", "-o", path.c_str()}), 1);
  EXPECT_THAT(err(), HasSubstr("x.pcap already exists; use another name"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap", "--bpf-filter", "{ 0x6, 0, 0, 0x40000 },"}), 0);
  EXPECT_EQ(out(), "pcap");
  EXPECT_EQ(node("10.0.0.2").captured, "eth0 4096 0 1");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap", "--bpf-filter", "tcp port 80"}), 1);
  EXPECT_THAT(err(), HasSubstr("line 1 of the filter lacks a \"{\"; use what `tcpdump -dd"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap", "--snaplen", "0"}), 1);
  c.test.console.terminal = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap"}), 1);
  EXPECT_THAT(err(), HasSubstr("a capture cannot be printed on a terminal"));
}

// Catches: an empty file of a refused capture that stops the next one, a short time that becomes
// unlimited, an unwritable file that is reported as the node's error.
TEST_F(Looking, ACaptureThatFailsLeavesNoFile) {
  auto path = std::string(c.folder.cStr()) + "/y.pcap";
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap", "-i", "nowhere", "-o", path.c_str()}), 1);
  EXPECT_THAT(err(), HasSubstr("there is no link \"nowhere\""));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap", "--duration", "0.5ms", "-o", path.c_str()}), 0);
  EXPECT_EQ(node("10.0.0.2").captured, "eth0 4096 1 20");
  EXPECT_EQ(readFile(path.c_str()), "pcap");
  auto absent = std::string(c.folder.cStr()) + "/absent/y.pcap";
  err();
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "pcap", "-o", absent.c_str()}), 1);
  EXPECT_EQ(err(), "error: cannot write " + absent + ": No such file or directory\n");
}

// Catches: the request to a list of nodes that is taken for one node's name.
TEST_F(Looking, CompletionAsksTheFirstOfSeveralNodes) {
  node("10.0.0.2");
  EXPECT_EQ(c.run({"__complete", "--", "-n", "10.0.0.2,10.0.0.3", "service", "ap"}), 0);
  EXPECT_EQ(out(), "apid\n");
}

// Catches: a kind of names that completion says it knows, and does not request; an unknown type
// that is an error.
TEST_F(Looking, CompletionOffersTheNamesThatTheNodeHas) {
  node("10.0.0.2");
  EXPECT_EQ(c.run({"__complete", "--", "-n", "10.0.0.2", "token", "revoke", ""}), 0);
  EXPECT_EQ(out(), "abcdef\nghijkl\n");
  EXPECT_EQ(c.run({"__complete", "--", "-n", "10.0.0.2", "crashes", "api"}), 0);
  EXPECT_THAT(out(), HasSubstr("apid-20210301T120000Z\n"));
  EXPECT_EQ(c.run({"__complete", "--", "-n", "10.0.0.2", "restart", ""}), 0);
  EXPECT_NE(out(), "");
  EXPECT_EQ(c.run({"__complete", "--", "-n", "10.0.0.2", "get", "crashreports", "apid-"}), 0);
  EXPECT_THAT(out(), HasSubstr("apid-20210301T120000Z\n"));
  EXPECT_EQ(c.run({"__complete", "--", "-n", "10.0.0.2", "get", "no-such-type", ""}), 0);
  EXPECT_EQ(out(), "");
}

}  // namespace
}  // namespace talos::talosctl
