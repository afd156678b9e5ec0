// Whole runs of commands against a cluster in this process.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <regex>

#include "common/tar/test-tar.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

using Runs = ClusterTest;

// Catches one bad node that spoils the answers of the others, an error that does not name its node,
// and a node that hangs and holds up the command.
TEST_F(Runs, ATableShowsWhoAnsweredAndWarnsOfTheRest) {
  node("10.0.0.3").off = true;
  node("10.0.0.4").hangs = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "-n", "10.0.0.4", "memory", "--timeout", "7s"}), 0);
  EXPECT_EQ(out(),
            "NODE       TOTAL   USED   FREE   SHARED   BUFFERS   CACHE   AVAILABLE\n"
            "10.0.0.2   2       2      0      0        0         0       0\n");
  auto text = err();
  EXPECT_THAT(text, StartsWith("WARNING: 2 nodes failed:\n"));
  EXPECT_THAT(text, HasSubstr("10.0.0.3: 10.0.0.3:50000: connection refused\n"));
  EXPECT_THAT(text, HasSubstr("10.0.0.4: no answer within 7s\n"));
}

TEST_F(Runs, WhenAllNodesFailSoDoesTheCommand) {
  node("10.0.0.2").off = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "memory"}), 1);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(err(), "error: 10.0.0.2: 10.0.0.2:50000: connection refused\n");
}

// Catches machine-readable output without the failures.
TEST_F(Runs, JsonAndYamlCarryTheFailures) {
  node("10.0.0.3").off = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "memory", "-o", "json"}), 0);
  auto text = out();
  EXPECT_THAT(text, HasSubstr("{\n    \"node\": \"10.0.0.2\",\n    \"fields\": ["));
  EXPECT_THAT(
      text,
      HasSubstr(
          "{\n    \"node\": \"10.0.0.3\",\n    \"error\": {\n        \"kind\": \"Unavailable\",\n"
          "        \"message\": \"10.0.0.3:50000: connection refused\"\n    }\n}\n"));
  EXPECT_THAT(err(), StartsWith("WARNING: "));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "memory", "-o", "yaml"}), 0);
  EXPECT_EQ(
      out(),
      "node: 10.0.0.2\nfields:\n    - name: MemTotal\n      value: 2048\n      unit: kB\n---\n"
      "node: 10.0.0.3\nerror:\n    kind: Unavailable\n    message: \"10.0.0.3:50000: connection "
      "refused\"\n");
}

TEST_F(Runs, VersionOfTheClientNeedsNoNode) {
  EXPECT_EQ(c.run({"version", "--client", "--talosconfig", "/nonexistent/file"}), 0);
  EXPECT_THAT(out(), AllOf(StartsWith("Client:\n\tTag:         v"), Not(HasSubstr("Server"))));
  EXPECT_EQ(c.run({"version", "-n", "10.0.0.2"}), 0);
  EXPECT_THAT(out(), HasSubstr("\n\nServer:\n\tNODE:        10.0.0.2\n\tTag:         v0.9.0\n"));
}

TEST_F(Runs, Services) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "service", "apid"}), 0);
  EXPECT_THAT(out(),
              AllOf(HasSubstr("NODE     10.0.0.2\nID       apid\nSTATE    Running\nHEALTH   OK\n"),
                    HasSubstr("NODE     10.0.0.3\n")));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "service", "etcd"}), 1);
  EXPECT_EQ(err(), "error: service \"etcd\" is not registered on any of the nodes\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "service", "apid", "restart"}), 0);
  EXPECT_EQ(out(), "NODE       RESPONSE\n10.0.0.2   Service \"apid\" restarted\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "service", "apid", "kill", "--signal", "kill"}), 0);
  EXPECT_EQ(out(), "NODE       RESPONSE\n10.0.0.2   Service \"apid\" was sent kill\n");
  EXPECT_EQ(node("10.0.0.2").lastSignal, 9);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "service", "apid", "kill", "--signal", "SIGNONE"}), 1);
  EXPECT_THAT(err(), HasSubstr("\"SIGNONE\" is not a valid signal"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "service", "apid", "explode"}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("unknown action \"explode\""), HasSubstr("Usage:")));
}

TEST_F(Runs, GetPrintsTheDocumentedForms) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "svc"}), 0);
  EXPECT_EQ(out(),
            "NODE       NAMESPACE   TYPE      ID         VERSION   RUNNING   HEALTHY\n"
            "10.0.0.2   runtime     Service   apid       3         true      true\n"
            "10.0.0.2   runtime     Service   machined   1         true      false\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "services", "apid", "-o", "yaml"}), 0);
  EXPECT_EQ(
      out(),
      "node: 10.0.0.2\nmetadata:\n    namespace: runtime\n    type: Services.v1alpha1.talos.dev\n"
      "    id: apid\n    version: 3\n    phase: running\nspec:\n    running: true\n    healthy: "
      "true\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "mt", "-o", "yaml"}), 0);
  EXPECT_THAT(out(), HasSubstr("    phase: running\nspec: controlplane\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "mt", "-o", "json"}), 0);
  EXPECT_EQ(
      out(),
      "{\n    \"node\": \"10.0.0.2\",\n    \"metadata\": {\n        \"namespace\": \"config\",\n"
      "        \"type\": \"MachineTypes.config.talos.dev\",\n        \"id\": \"machine-type\",\n"
      "        \"version\": 1,\n        \"phase\": \"running\"\n    },\n    \"spec\": "
      "\"controlplane\"\n}\n");
}

TEST_F(Runs, GetNamesWhatIsWrong) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "svc", "nobody"}), 1);
  EXPECT_EQ(err(), "10.0.0.2: resource \"nobody\" doesn't exist\n");
  EXPECT_EQ(out(), "");  // not the header of an empty table
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "nonsense"}), 1);
  EXPECT_THAT(err(), HasSubstr("nonsense"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "as"}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("AddressSpecs"), HasSubstr("AddressStatuses")));
  node("10.0.0.2").resourcesRefused = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "rootsecrets"}), 1);
  EXPECT_EQ(err(), "10.0.0.2: Node.sensitiveResources needs os:admin\n");
}

// Catches: a key that is read in another notation, a change that reaches one node of two, bytes
// that are lost or that reach the terminal, a deletion of an absent key that succeeds.
TEST_F(Runs, MetaIsReadWrittenAndDeleted) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "meta", "write", "0x0a", "one\x1b[31m"}), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "meta", "write", "6", "A"}), 0);
  EXPECT_EQ(out(), "");
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "meta", "read"}), 0);
  EXPECT_EQ(out(),
            "NODE       KEY   VALUE\n"
            "10.0.0.2   6     A\n"
            "10.0.0.2   10    one\\x1b[31m\n"
            "10.0.0.3   10    one\\x1b[31m\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "meta", "read", "10", "-o", "yaml"}), 0);
  EXPECT_EQ(out(), "node: 10.0.0.2\nvalues:\n    - key: 10\n      value: b25lG1szMW0=\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "meta", "delete", "6"}), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "meta", "delete", "6"}), 1);
  EXPECT_EQ(err(), "error: 10.0.0.2: no value 6\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "meta", "read", "6"}), 1);
  err();
  for (auto key : {"0", "-1", "4294967296", "six", "0x", ""}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "meta", "write", "--", key, "x"}), 1) << key;
    EXPECT_THAT(err(), HasSubstr("is not a valid key; use a number from 1 to 4294967295"));
  }
  EXPECT_EQ(node("10.0.0.2").meta.size(), 1u);
}

// Catches: the key of another volume or slot than the requested one, a slot that no header has.
TEST_F(Runs, ARecoveryKeyIsShown) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "encryption", "recovery-key", "STATE", "7"}), 0);
  EXPECT_EQ(out(), "NODE       RECOVERY KEY\n10.0.0.2   opens-STATE-7\n");
  for (auto slot : {"32", "-1", "seven", ""}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "encryption", "recovery-key", "--", "STATE", slot}), 1)
        << slot;
    EXPECT_THAT(err(), HasSubstr("is not a valid key slot; must be 0 to 31"));
  }
}

// Catches: another method or device than the requested one, and a refusal that is not shown.
TEST_F(Runs, DisksAreWiped) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "wipe", "disk", "vdb", "vdc1"}), 0);
  EXPECT_EQ(out(), "");
  auto said = err();
  for (auto node : {"10.0.0.2", "10.0.0.3"}) {
    EXPECT_THAT(said, HasSubstr(std::string(node) + ": wiping /dev/vdb\n"));
    EXPECT_THAT(said, HasSubstr(std::string(node) + ": wiping /dev/vdc1\n"));
  }
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "wipe", "disk", "vdb", "--method", "ZEROES"}), 0);
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: zeroing /dev/vdb\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "wipe", "disk", "vdb", "vda"}), 1);
  EXPECT_THAT(err(), HasSubstr("error: 10.0.0.2: blockdevice \"vda\" is the disk of the system\n"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "wipe", "disk"}), 1);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "wipe", "disk", "vdb", "--skip-volume-check"}), 1);
  EXPECT_THAT(err(), HasSubstr("what uses a device is always checked"));
}

TEST_F(Runs, Files) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "ls", "/etc"}), 0);
  EXPECT_EQ(out(), "NODE       NAME\n10.0.0.2   .\n10.0.0.2   hostname\n");
  EXPECT_EQ(err(), "10.0.0.2: /etc/shadow: permission denied\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "ls", "-t", "x"}), 1);
  EXPECT_THAT(err(), HasSubstr("flag --type"));
}

// Catches: a negative depth that is refused, or sent as billions of levels; a depth that is ignored
// without --recurse.
TEST_F(Runs, FilesOfSeveralLevels) {
  struct {
    kj::StringPtr depth, recurse, listed;
  } table[] = {{"-1", "false", "all 0"}, {"-1", "true", "all 0"},
               {"-7", "false", "all 0"}, {"0", "false", "0"},
               {"0", "true", "all 0"},   {"1", "false", "1"},
               {"1", "true", "all 1"},   {"2", "false", "all 2"},
               {"3", "true", "all 3"},   {"4294967297", "true", "all 4294967295"}};
  for (auto& row : table) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "ls", "/etc", "--depth", row.depth,
                     kj::str("--recurse=", row.recurse)}),
              0)
        << err();
    EXPECT_EQ(node("10.0.0.2").listed.back(), row.listed) << row.depth.cStr();
  }
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "du", "-d", "-1", "/var"}), 1);
  EXPECT_THAT(err(), HasSubstr("flag --depth must not be negative"));
}

// Catches bytes of a file that control the terminal, and escapes in the input of a script.
TEST_F(Runs, ReadIsRawUnlessItGoesToATerminal) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "read", "/etc/hosts"}), 0);
  EXPECT_EQ(out(), "a\x1b[2Jb\n");
  c.test.console.terminal = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "read", "/etc/hosts"}), 0);
  EXPECT_EQ(out(), "a\\x1b[2Jb\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "read", "/etc/hosts"}), 1);
  EXPECT_THAT(err(), HasSubstr("command \"read\" is not supported with multiple nodes ("));
}

TEST_F(Runs, CopyUnpacks) {
  TestTar tar;
  tar.file("hostname", 0644, "node-1");
  node("10.0.0.2").archive = gzip(tar.finish());
  auto target = kj::str(c.folder, "/out");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cp", "/etc", target}), 1);  // the other files exist
  EXPECT_EQ(readFile(kj::str(target, "/hostname")), "node-1");
  EXPECT_EQ(err(), "10.0.0.2: cannot read /etc/shadow\n");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cp", "/etc", target}), 1);  // never overwrites
  EXPECT_THAT(err(), HasSubstr("hostname: cannot create it: File exists"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cp", "/etc", "-"}), 1);
  EXPECT_THAT(out(), StartsWith("\x1f\x8b"));
  node("10.0.0.2").unreadable = nullptr;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cp", "/etc", "-"}), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "cp", "etc", target}), 1);
  EXPECT_THAT(err(), HasSubstr("absolute"));
}

// Catches a reboot reported done while the old boot still answers, and nodes that wait for one
// another.
TEST_F(Runs, RebootFollowsEachNodeToItsOutcome) {
  node("10.0.0.2").answersUntilReboot = 3;
  node("10.0.0.3").answersUntilReboot = 1;
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "reboot"}), 0);
  auto text = err();
  EXPECT_THAT(text, HasSubstr("10.0.0.2: stopping\n"));
  EXPECT_THAT(text, HasSubstr("10.0.0.2: rebooted, all services are up after "));
  EXPECT_THAT(text, HasSubstr("10.0.0.3: rebooted, all services are up after "));
  EXPECT_EQ(out(), "");
}

TEST_F(Runs, ASilentCommandFailsWhenAnyNodeDoes) {
  node("10.0.0.3").off = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "reboot", "--wait=false"}), 1);
  EXPECT_EQ(err(), "error: 10.0.0.3: 10.0.0.3:50000: connection refused\n");
  EXPECT_TRUE(node("10.0.0.2").rebooting);  // the other nodes act all the same
}

TEST_F(Runs, ShutdownWaitsUntilTheNodeIsGone) {
  node("10.0.0.2").answersUntilReboot = 2;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "shutdown"}), 0);
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: shut down after "));
}

// An endpoint that is a node itself: after its shutdown nothing listens.
struct OwnEndpoint : ClusterTest {
  ~OwnEndpoint() noexcept override {}
  OwnEndpoint() { node("127.0.0.1").bootId = kj::str("boot-of-endpoint"); }
  int run(std::initializer_list<kj::StringPtr> words) {
    auto running = c.start(words);
    for (int round = 0; round < 400; ++round) {
      c.settle();
      if (running.poll(c.test.io.waitScope)) return running.wait(c.test.io.waitScope);
      if (node("127.0.0.1").off) c.serving.clear();
      KJ_IF_MAYBE (next, c.clock.nextEvent()) c.clock.advanceTo(kj::max(*next, c.clock.now()));
    }
    return -1;
  }
};

// Catches: a node that counts as off because the endpoint is off through which it was observed.
TEST_F(OwnEndpoint, GoesDownWhenTheOthersAreOff) {
  auto& other = node("10.0.0.3");
  other.answersUntilReboot = 20;
  EXPECT_EQ(run({"-n", "127.0.0.1,10.0.0.3", "shutdown"}), 0);
  EXPECT_TRUE(other.off);
  auto text = err();
  EXPECT_LT(text.find("10.0.0.3: shut down after "), text.find("127.0.0.1: shut down after "));
}

// Catches: the same for an endpoint that the user has not named.
TEST_F(OwnEndpoint, WhenItIsGoneNothingIsKnownOfANode) {
  node("10.0.0.3").answersUntilReboot = 1'000'000;
  node("127.0.0.1").off = true;
  EXPECT_EQ(run({"-n", "10.0.0.3", "shutdown", "--timeout", "1m"}), 1);
  EXPECT_THAT(err(), HasSubstr("timed out after 1m0s; last state: no endpoint answers"));
}

// Catches: a wait without end for a node because the endpoint is the same node under another name.
TEST_F(OwnEndpoint, IsKnownByItsBootUnderAnyName) {
  node("10.0.0.3").bootId = kj::str("boot-of-endpoint");
  node("10.0.0.3").answersUntilReboot = 1'000'000;
  auto running = c.start({"-n", "10.0.0.3", "shutdown"});
  c.settle();
  c.serving.clear();
  EXPECT_EQ(c.finish(kj::mv(running)), 0);
  EXPECT_THAT(err(), HasSubstr("10.0.0.3: shut down after "));
}

// Catches: help whose words differ from the users' document.
TEST_F(Runs, TheHelpOfResetIsThatOfTheDocument) {
  EXPECT_EQ(c.run({"reset", "--help"}), 0);
  auto text = std::regex_replace(out(), std::regex("\\s+"), " ");
  EXPECT_THAT(text, HasSubstr("--graceful if true, attempt to cordon/drain node and leave etcd (if "
                              "applicable) (default true) "));
  EXPECT_THAT(text, HasSubstr("--reboot if true, reboot the node after resetting instead of "
                              "shutting down "));
}

// Catches: a reset that does not print what it erases, or that continues although a node refused or
// the user did not confirm; flags that are not passed on.
TEST_F(Runs, ResetSaysWhatItErasesAndAsks) {
  node("10.0.0.2").answersUntilReboot = 2;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "reset", "--graceful=false", "--reboot",
                   "--system-labels-to-wipe", "STATE,META"}),
            0);
  auto text = err();
  EXPECT_THAT(text, HasSubstr("10.0.0.2: erases STATE (/dev/vda5, 105 MB); then reboots\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("[y/N]")));
  ASSERT_EQ(node("10.0.0.2").resets.size(), 1u);
  EXPECT_EQ(node("10.0.0.2").resets[0], "STATE+META reboot");

  node("10.0.0.3").notInstalled = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "reset"}), 1);
  EXPECT_THAT(err(), HasSubstr("error: 10.0.0.3: this node has no partition META"));
  EXPECT_EQ(node("10.0.0.2").resets.size(), 1u);

  // etcd's refusal comes before the question; the request has the flags of the command.
  node("10.0.0.2").etcdVoters = 1;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "reset"}), 1);
  EXPECT_THAT(err(), HasSubstr("error: 10.0.0.2: this node is the only voter"));
  EXPECT_EQ(node("10.0.0.2").resets.size(), 1u);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "reset", "--graceful=false", "--wait=false"}), 0);
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: etcd has 1 voter, which tolerates no failure; m is the "
                               "only voter: the cluster, and all of its data, end with it\n"));
  EXPECT_EQ(node("10.0.0.2").resets.size(), 2u);
  node("10.0.0.2").resets.removeLast();
  node("10.0.0.2").etcdVoters = 0;

  c.test.console.terminal = true;
  for (kj::StringPtr said : {"n\n"_kj, ""_kj, "yes please\n"_kj, "y\n"_kj}) {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
    KJ_SYSCALL(write(writing, said.begin(), said.size()));
    writing = nullptr;
    c.deps->input = reading;
    bool yes = said == "y\n";
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "reset", "--wait=false"}), yes ? 0 : 1) << said.cStr();
    text = err();
    EXPECT_THAT(text, HasSubstr("10.0.0.2: erases all of /dev/vda: STATE (/dev/vda5, 105 MB); then "
                                "shuts down\nreset this node? [y/N] "));
    EXPECT_EQ(node("10.0.0.2").resets.size(), yes ? 2u : 1u) << said.cStr();
    if (!yes) EXPECT_THAT(text, HasSubstr("not confirmed; nothing was reset"));
  }
  EXPECT_EQ(node("10.0.0.2").resets[1], " graceful");
}

// Catches: a node that is erased without a question because stderr goes to a file; a question that
// the user cannot see.
TEST_F(Runs, ResetIsRefusedWhereItCannotAsk) {
  c.test.console.terminal = c.test.console.errRedirected = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "reset", "--wait=false"}), 1);
  EXPECT_THAT(err(), HasSubstr("cannot ask whether to reset: stderr is not a terminal; use --yes"));
  EXPECT_EQ(node("10.0.0.2").resets.size(), 0u);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "reset", "--wait=false", "--yes"}), 0);
  EXPECT_EQ(node("10.0.0.2").resets.size(), 1u);
}

// Catches: a backup that a mistyped name overwrites without a message; a script that stops at a
// question.
TEST_F(Runs, ASnapshotThatReplacesAFileSaysSo) {
  auto path = kj::str(c.folder, "/etcd.db");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "etcd", "snapshot", path}), 0);
  EXPECT_EQ(err(), "");
  auto snapshot = readFile(path);
  writeFileAtomically(path, "older"_kj, 0600);
  timespec times[2] = {{1'600'000'000, 0}, {1'600'000'000, 0}};
  KJ_SYSCALL(utimensat(AT_FDCWD, path.cStr(), times, 0));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "etcd", "snapshot", path}), 0);
  EXPECT_EQ(err(), kj::str("replaced \"", path,
                           "\", which was written 2020-09-13T12:26:40Z, and \"", path, ".sig\"\n")
                       .cStr());
  EXPECT_EQ(readFile(path), snapshot);

  writeFileAtomically(path, "older"_kj, 0600);
  c.test.console.terminal = true;
  for (kj::StringPtr said : {"n\n"_kj, ""_kj, "y\n"_kj}) {
    int ends[2];
    KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
    kj::AutoCloseFd reading(ends[0]), writing(ends[1]);
    KJ_SYSCALL(write(writing, said.begin(), said.size()));
    writing = nullptr;
    c.deps->input = reading;
    bool yes = said == "y\n";
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "etcd", "snapshot", path}), yes ? 0 : 1) << said.cStr();
    EXPECT_THAT(err(), AllOf(HasSubstr("replace \""), HasSubstr("? [y/N] "),
                             HasSubstr(yes ? "replaced" : "already exists, use --force")));
    EXPECT_EQ(readFile(path), yes ? snapshot : "older"_kj) << said.cStr();
  }
  // The signature of a snapshot that was moved elsewhere.
  KJ_SYSCALL(unlink(path.cStr()));
  writeFileAtomically(kj::str(path, ".sig"), "older"_kj, 0600);
  int ends[2];
  KJ_SYSCALL(pipe2(ends, O_CLOEXEC));
  kj::AutoCloseFd reading(ends[0]);
  close(ends[1]);
  c.deps->input = reading;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "etcd", "snapshot", path}), 1);
  EXPECT_THAT(err(),
              AllOf(HasSubstr("replace \""), HasSubstr("etcd.db.sig\", which was written ")));
  EXPECT_EQ(readFile(kj::str(path, ".sig")), "older"_kj);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "etcd", "snapshot", path, "--force"}), 0);
  EXPECT_THAT(err(), Not(HasSubstr("[y/N]")));
}

// Catches: nodes in another order than their answers; a node that is still waited for after its
// answer.
TEST_F(Runs, AnAnswerIsHeardWhenItComes) {
  node("10.0.0.2").hangs = true;
  auto run = c.start({"-n", "10.0.0.2,10.0.0.3", "memory"});
  c.settle();
  EXPECT_EQ(c.test.console.awaited, "waiting for 10.0.0.2");
  EXPECT_EQ(c.finish(kj::mv(run)), 0);
}

// Catches: a flag that is accepted and has no effect.
TEST_F(Runs, FlagsThatWouldDoNothingAreRefused) {
  using Line = std::initializer_list<kj::StringPtr>;
  for (Line line :
       {Line{"service", "apid", "restart", "--signal", "SIGKILL"},
        Line{"service", "--signal", "SIGKILL"}, Line{"processes", "--sort=cpu", "-o=json"},
        Line{"processes", "--watch", "-o", "yaml"}, Line{"version", "--short", "-o=json"},
        Line{"kubeconfig", "--merge=false", "--force-context-name", "a"},
        Line{"dmesg", "--tail"}}) {
    EXPECT_EQ(c.run(line), 1);
    EXPECT_EQ(out(), "");
    EXPECT_THAT(err(), AllOf(StartsWith("error: --"), HasSubstr("Usage:")));
  }
}

// Catches: a command without a result that reports nothing to programs.
TEST_F(Runs, WithJsonOrYamlEachCommandReportsItsResult) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.9", "meta", "write", "10", "a", "-o", "json"}), 1);
  EXPECT_THAT(out(), AllOf(HasSubstr("{\"node\":\"10.0.0.2\",\"done\":true}\n"),
                           HasSubstr("{\"node\":\"10.0.0.9\",\"error\":{")));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.9", "meta", "write", "10", "a", "-o", "yaml"}), 1);
  EXPECT_THAT(out(), AllOf(HasSubstr("---\nnode: 10.0.0.2\ndone: true\n"),
                           HasSubstr("---\nnode: 10.0.0.9\nerror:\n    kind: ")));
}

TEST_F(Runs, AnOutcomeThatNeverComesHasADeadline) {
  node("10.0.0.2").answersUntilReboot = 1'000'000;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "reboot", "--timeout", "20s"}), 1);
  EXPECT_THAT(err(), HasSubstr("error: 10.0.0.2: timed out after 20s; last state: stopping"));
}

TEST_F(Runs, AnInterruptedRequestIsAFailure) {
  node("10.0.0.2").hangs = true;
  auto interrupt = kj::newPromiseAndFulfiller<void>();
  auto run = c.start({"-n", "10.0.0.2", "memory"}, kj::mv(interrupt.promise));
  c.settle();
  interrupt.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(run)), 130);
  EXPECT_EQ(err(), "interrupted\n");
  auto again = kj::newPromiseAndFulfiller<void>();
  auto reboot = c.start({"-n", "10.0.0.2", "reboot"}, kj::mv(again.promise));
  c.settle();
  again.fulfiller->fulfill();
  EXPECT_EQ(c.finish(kj::mv(reboot)), 130);
  EXPECT_EQ(err(), "interrupted; a node that has accepted the request continues\n");
}

// Catches: a rollout that Ctrl-C ends without the command that continues, with another command than
// the one that was given, or as a success; a dry run that is to be continued.
TEST_F(Runs, AnInterruptedRolloutSaysHowToContinue) {
  struct {
    std::vector<kj::StringPtr> words;
    const char* line;
  } rows[] = {
      {{"rotate-ca", "--dry-run=false", "-o", "new config"},
       "continue with: talosctl rotate-ca --dry-run=false --nodes=10.0.0.2 '--output=new "
       "config'\n"},
      {{"rotate-ca"}, ""},
      {{"upgrade-cluster", "-i", "x/i:v3", "--yes"},
       "continue with: talosctl upgrade-cluster --image=x/i:v3 --nodes=10.0.0.2 --yes\n"},
      {{"upgrade-cluster", "-i", "x/i:v3", "--dry-run"}, ""},
      {{"upgrade-k8s", "--to", "1.34.4"},
       "continue with: talosctl upgrade-k8s --nodes=10.0.0.2 --to=1.34.4\n"},
      {{"convert-k8s", "--force"},
       "continue with: talosctl convert-k8s --force --nodes=10.0.0.2\n"},
  };
  for (auto& row : rows) {
    kj::Vector<kj::StringPtr> words;
    words.add("-n"_kj), words.add("10.0.0.2"_kj);
    for (auto word : row.words) words.add(word);
    EXPECT_EQ(c.finish(c.start(words, kj::READY_NOW)), 130);
    EXPECT_EQ(err(), std::string("interrupted\n") + row.line);
    EXPECT_EQ(out(), "");
  }
}

}  // namespace
}  // namespace talos::talosctl
