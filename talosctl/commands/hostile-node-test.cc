// A hostile node must not gain access to more than itself by its answers to a client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/kube/kubeconfig.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/cli/table-look.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::HasSubstr;

struct HostileNode : public ClusterTest {
  ~HostileNode() noexcept override {}

  kj::String path(kj::StringPtr name) { return kj::str(c.folder, "/", name); }
  // Returns a kubeconfig with one more line in its user.
  kj::String kubeconfig(kj::StringPtr line) {
    auto admin = pki::issue(c.authority.certificate, c.authority.key, {.server = false});
    auto text =
        kube::writeKubeconfig({.cluster = "c1",
                               .server = "https://10.0.0.2:6443",
                               .authority = c.authority.certificate,
                               .user = "admin@c1",
                               .credentials = kube::ClientPair{admin.certificate, admin.key},
                               .context = "admin@c1"});
    std::string changed = kj::StringPtr(text).cStr();
    changed.insert(changed.find("    client-key-data"), line.cStr());
    return kj::str(changed.c_str());
  }
  // Returns the error of the node's streaming call to the client; empty if the client accepted it.
  // Each call returns before it was received, so the next call has its error.
  template <typename Request>
  std::string refusal(Request request) {
    std::string error = "no answer";
    for (int i = 0; i < 2; ++i) {
      auto pending = request()
                         .then([&]() { error.clear(); },
                               [&](kj::Exception&& e) { error = e.getDescription().cStr(); })
                         .eagerlyEvaluate(nullptr);
      c.settle();
    }
    return error;
  }
};

// Catches: a client that stores the rows of a node until its list ends, which never happens.
TEST_F(HostileNode, ItsEndlessListIsPrintedAsItComes) {
  node("10.0.0.2").endlessFiles = true;
  for (auto command : {"list", "usage"}) {
    auto run = c.start({"-n", "10.0.0.2", command, "/"});
    std::string shown;
    for (int i = 0; i < 1000 && shown.empty(); ++i) {
      c.settle();
      // The time slice of a peer that sends much ends with the time.
      c.clock.advanceTo(c.clock.now());
      shown = out();
    }
    EXPECT_FALSE(run.poll(c.test.io.waitScope));
    EXPECT_GT(shown.size(), kMostTableBytes / 2) << command << ": " << err();
    EXPECT_EQ(shown.find("NODE"), 0u);
    EXPECT_THAT(shown, HasSubstr("\n10.0.0.2"));
  }
}

// Catches: a program that the administrator's next kubectl would run.
TEST_F(HostileNode, AProgramInItsKubeconfigIsRefusedWithTheNodesName) {
  node("10.0.0.2").kubeconfig = kubeconfig("    exec: {command: /tmp/evil}\n");
  node("10.0.0.3").kubeconfig = kubeconfig("");
  for (auto merge : {"--merge", "--merge=false"}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "kubeconfig", path("config"), merge}), 1);
    EXPECT_THAT(err(), HasSubstr("10.0.0.2: the kubeconfig from this node is refused: "
                                 "users[0].user.exec: a node must not set this key"));
    EXPECT_NE(access(path("config").cStr(), F_OK), 0);
  }
  EXPECT_EQ(c.run({"-n", "10.0.0.3", "kubeconfig", path("config")}), 0) << err();
}

// Catches: a client configuration for another user that trusts a foreign CA, whose owner could then
// impersonate every node.
TEST_F(HostileNode, ItCannotChooseTheCaOfANewClientConfiguration) {
  auto mine = pki::makeAuthority({.organization = "talos"});
  node("10.0.0.2").authority = &mine;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "config", "new", path("new")}), 1);
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: the node answered with another CA than that of this "
                               "client configuration"));
  EXPECT_NE(access(path("new").cStr(), F_OK), 0);
}

// Catches: bytes of a node that control a terminal.
TEST_F(HostileNode, AnArchiveIsNotPrintedOnATerminal) {
  node("10.0.0.2").archive = kj::heapArray("\x1b]0;owned\x07"_kj.asBytes());
  node("10.0.0.2").unreadable = nullptr;
  c.test.console.terminal = true;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "copy", "/etc", "-"}), 1);
  EXPECT_THAT(err(), HasSubstr("an archive cannot be printed on a terminal"));
  EXPECT_EQ(out(), "");
  c.test.console.terminal = false;
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "copy", "/etc", "-"}), 0);
  EXPECT_EQ(out(), "\x1b]0;owned\x07");
}

// Catches: a document with a node's text that is printed unchanged on a terminal.
TEST_F(HostileNode, ADocumentIsShownAndNotObeyed) {
  node("10.0.0.2").config.document = kj::str("machine: {}  # \x1b[2J\x1b]0;owned\x07\n");
  c.test.console.terminal = true;
  for (auto form : {"yaml", "json", "jsonpath={.spec}"}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "get", "mc", "v1alpha1", "-o", form}), 0) << err();
    auto shown = out();
    EXPECT_GT(shown.size(), 10u);
    for (auto sign : {"\x1b[2J", "\x1b]", "\x07"}) {
      EXPECT_EQ(shown.find(sign), std::string::npos) << form;
    }
  }
}

// Catches: a file outside the folder of symbols that is read because a node names it; a FIFO whose
// other end the command waits for.
TEST_F(HostileNode, ItsBuildIdIsNoPath) {
  auto folder = path("symbols"), outside = path("secret.symbols.gz");
  makeDirectories(folder);
  writeFileAtomically(outside, "not compressed"_kj, 0600);
  for (auto id : {"../secret", "/etc/x", "0A16", "", "0a16\n> forged"}) {
    node("10.0.0.2").buildId = kj::str(id);
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "debug", "stack", "apid", "--symbols", folder}), 0);
    EXPECT_THAT(err(), HasSubstr("is not hexadecimal\n")) << id;
    EXPECT_THAT(out(), testing::Not(HasSubstr("\n> forged"))) << id;
  }
  node("10.0.0.2").buildId = kj::str(kj::repeat('a', 65));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "crashes", "apid-20210301T120000Z", "--symbols", folder}), 0);
  EXPECT_THAT(err(), HasSubstr("is not hexadecimal\n"));
  node("10.0.0.2").buildId = kj::str("0a16");
  ASSERT_EQ(mkfifo(kj::str(folder, "/0a16.symbols.gz").cStr(), 0600), 0);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "debug", "stack", "apid", "--symbols", folder}), 1);
  EXPECT_THAT(err(), HasSubstr("0a16.symbols.gz is not a file"));
}

// Catches: a node that keeps the sink of a call and writes into memory that the command has freed,
// here a snapshot's file. The connection lives on, because another node sends the snapshot.
TEST_F(HostileNode, TheSinkOfASnapshotIsRefusedAfterItsCall) {
  auto& kept = node("10.0.0.2").upgrades.keptSinks;
  node("10.0.0.2").upgrades.snapshotFails = true;
  auto run = c.start({"-n", "10.0.0.2,10.0.0.3", "etcd", "snapshot", c.folder, "--every", "1h"});
  c.settle();
  EXPECT_THAT(err(), HasSubstr("10.0.0.2: no snapshot: etcd is not ready"));
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_THAT(refusal([&]() {
                auto request = kept[0].writeRequest();
                request.setBytes("late"_kj.asBytes());
                return request.send();
              }),
              HasSubstr("revoked"));
}

// Catches: the same for a log, while the log of another node is followed.
TEST_F(HostileNode, TheSinkOfALogIsRefusedAfterItsCall) {
  auto& kept = node("10.0.0.2").keptSinks;
  node("10.0.0.2").logsFail = true;
  auto run = c.start({"-n", "10.0.0.2,10.0.0.3", "logs", "-f", "apid"});
  c.settle();
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_THAT(refusal([&]() {
                auto request = kept[0].writeRequest();
                request.setBytes("late\n"_kj.asBytes());
                return request.send();
              }),
              HasSubstr("revoked"));
  EXPECT_EQ(out(), "");
}

}  // namespace
}  // namespace talos::talosctl
