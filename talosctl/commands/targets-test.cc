// Endpoints, nodes and identity of a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "common/base/date.h"
#include "common/talosconfig/talosconfig.h"
#include "talosctl/cli/commandline.h"
#include "talosctl/client/cluster-client.h"
#include "talosctl/commands/test-cluster.h"

namespace talos::talosctl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Targets = ClusterTest;

TEST_F(Targets, WithoutANodeTheFlagIsNamed) {
  EXPECT_EQ(c.run({"memory"}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("--nodes"), HasSubstr("config node")));
}

TEST_F(Targets, EndpointsAreTriedInTurn) {
  for (int i = 0; i < 4; ++i) {  // the order is random
    EXPECT_EQ(c.run({"-e", "127.0.0.3,127.0.0.2", "-n", "10.0.0.2", "memory"}), 0);
    EXPECT_EQ(err(), "");
  }
}

// Catches an error for an unreachable cluster that does not name the endpoints and the failure of
// each.
TEST_F(Targets, UnreachableEndpointsAreNamed) {
  EXPECT_EQ(c.run({"-e", "127.0.0.3", "-n", "10.0.0.2", "memory"}), 1);
  EXPECT_THAT(err(),
              AllOf(HasSubstr("cannot connect to endpoint 127.0.0.3: "), HasSubstr("refused")));
  EXPECT_EQ(c.run({"-e", "127.0.0.3,127.0.0.4", "-n", "10.0.0.2", "memory"}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("endpoint 127.0.0.3: "), HasSubstr("endpoint 127.0.0.4: ")));
  EXPECT_EQ(c.run({"-e", "127.0.0.1:50000", "-n", "10.0.0.2", "memory"}), 1);
  EXPECT_THAT(err(), HasSubstr("port"));
}

// Catches: the address of the Kubernetes API as an endpoint, which is answered with "use https".
TEST_F(Targets, AUrlAsAnEndpointIsAnsweredWithItsHost) {
  struct Row {
    const char *url, *use;
  };
  for (auto& row : {Row{"https://10.0.0.2:6443", "the host alone, \"10.0.0.2\""},
                    Row{"https://k8s.example.com", "the host alone, \"k8s.example.com\""},
                    Row{"http://me@h1:1/path", "the host alone, \"h1\""},
                    Row{"https://[2001:db8::1]:6443", "the host alone, \"2001:db8::1\""},
                    Row{"https://", "an address or a name"}}) {
    SCOPED_TRACE(row.url);
    EXPECT_EQ(c.run({"-e", row.url, "-n", "10.0.0.2", "memory"}), 1);
    EXPECT_THAT(err(), HasSubstr(kj::str("endpoint \"", row.url, "\" is a URL; use ", row.use,
                                         " (the API is always on port 50000)")
                                     .cStr()));
  }
}

// Catches: a typing mistake in TALOSCONFIG that looks like a configuration without contexts.
TEST_F(Targets, AMissingTalosconfigIsNamedWithWhatNamesIt) {
  constexpr auto kText =
      "names \"/no/such\", which does not exist; use `talosctl config merge FILE`";
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "memory", "--talosconfig", "/no/such"}), 1);
  EXPECT_THAT(err(), HasSubstr(kj::str("--talosconfig ", kText).cStr()));
  c.test.environment.upsert(kj::str("TALOSCONFIG"), kj::str("/no/such"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "memory"}), 1);
  EXPECT_THAT(err(), HasSubstr(kj::str("error: TALOSCONFIG ", kText).cStr()));
}

// Catches: a bootstrap by the socket of a node that needs a talosconfig, or that names the socket
// as another node of the cluster.
TEST_F(Targets, ASocketNamesOnlyItsNode) {
  c.test.environment.upsert(kj::str("TALOSCONFIG"), kj::str("/no/such"));
  constexpr kj::StringPtr kWords[] = {"-e"_kj, "unix:/a"_kj, "-n"_kj, "10.0.0.2"_kj,
                                      "bootstrap"_kj};
  auto parsed = parseCommandLine(*c.deps, *c.root, kWords);
  auto hosts = namedHosts(*parsed.call);
  ASSERT_EQ(hosts.size(), 1u);
  EXPECT_EQ(hosts[0], "10.0.0.2"_kj);
}

// Catches a client that talks to a server which its CA did not sign.
TEST_F(Targets, AForeignAuthorityIsRefused) {
  auto foreign = pki::makeAuthority({.organization = "other"});
  c.writeConfig(foreign);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "memory"}), 1);
  EXPECT_THAT(err(), AllOf(HasSubstr("endpoint 127.0.0.1"), HasSubstr("certificate")));
  EXPECT_EQ(node("10.0.0.2").calls, 0u);
}

TEST_F(Targets, ABrokenTalosconfigIsNamedWithItsPlace) {
  writeFileAtomically(c.configPath(),
                      "context: test\ncontexts:\n    test:\n        endpoints: {\n"_kj, 0600);
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "memory"}), 1);
  EXPECT_THAT(err(), ::testing::ContainsRegex("talosconfig:[0-9]+:[0-9]+: "));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "memory", "--context", "nobody"}), 1);
}

// Catches: a node that is called, and shown, twice because it was named twice.
TEST_F(Targets, EachNodeOnce) {
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "-n", "10.0.0.2", "memory"}), 0);
  EXPECT_EQ(out(),
            "NODE       TOTAL   USED   FREE   SHARED   BUFFERS   CACHE   AVAILABLE\n"
            "10.0.0.2   2       2      0      0        0         0       0\n"
            "10.0.0.3   2       2      0      0        0         0       0\n");
  node("2001:db8::1");
  EXPECT_EQ(c.run({"-n", "2001:db8::1,2001:DB8:0::1", "service", "apid", "restart"}), 0);
  EXPECT_EQ(out(), "NODE          RESPONSE\n2001:db8::1   Service \"apid\" restarted\n");
}

// Catches: a script that names its node twice and succeeds here, where Talos refuses.
TEST_F(Targets, OneNodeIsNamedOnce) {
  for (auto command : {"read", "kubeconfig"}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "--nodes", "10.0.0.2", command, "/etc/hosts"}), 1);
    EXPECT_THAT(err(), HasSubstr(kj::str("command \"", command,
                                         "\" is not supported with multiple "
                                         "nodes (10.0.0.2, 10.0.0.2)")
                                     .cStr()));
  }
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.2", "cp", "/etc", "-"}), 1);
  EXPECT_THAT(err(), HasSubstr("not supported with multiple nodes"));
}

// Catches: a call that is sent although one of its targets is invalid.
TEST_F(Targets, AWrongNodeIsNamedBeforeAnythingIsSent) {
  for (auto wrong : {"10.0.0.3:50000", "[2001:db8::1]:50000", "a b", "10.0.0.3/24"}) {
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "-n", wrong, "service", "apid", "restart"}), 1) << wrong;
    EXPECT_THAT(err(), HasSubstr("node")) << wrong;
    EXPECT_EQ(out(), "") << wrong;
  }
}

// Catches: a dead endpoint that fails the command, at any position in the list.
TEST_F(Targets, ADeadEndpointIsSkipped) {
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(c.run({"-e", "127.0.0.3,127.0.0.4,127.0.0.1,127.0.0.5", "-n", "10.0.0.2,10.0.0.3",
                     "memory"}),
              0);
    EXPECT_EQ(err(), "");
    EXPECT_THAT(out(), HasSubstr("10.0.0.3"));
  }
}

// Catches: a refusal because of a certificate's validity that does not show it.
TEST_F(Targets, ARefusedCertificateIsShownWithItsTimes) {
  struct Row {
    kj::Duration begin;
    const char* error;
  };
  auto now = kj::systemPreciseCalendarClock().now();
  for (auto& row :
       {Row{-3650 * kj::DAYS, "certificate expired"}, Row{3650 * kj::DAYS, "bad certificate"}}) {
    auto leaf = pki::issue(c.authority.certificate, c.authority.key,
                           {.organizations = kj::arr(kj::str("os:admin")),
                            .server = false,
                            .lifetime = 1 * kj::DAYS,
                            .notBefore = now + row.begin});
    c.writeConfig(c.authority, leaf);
    EXPECT_EQ(c.run({"-n", "10.0.0.2", "memory"}), 1);
    EXPECT_THAT(err(), AllOf(HasSubstr("refused"), HasSubstr(row.error),
                             HasSubstr(kj::str("valid from ", dateText(now + row.begin), " until ",
                                               dateText(now + row.begin + 1 * kj::DAYS))
                                           .cStr()),
                             HasSubstr("the clock here shows 2")));
  }
}

// Catches: a key that leaves this computer, a file that others read or that replaces another file,
// rights that were not requested.
TEST_F(Targets, ConfigNew) {
  auto& self = node("127.0.0.1");
  self.authority = &c.authority;
  auto path = kj::str(c.folder, "/new/talosconfig");
  c.test.environment.upsert(kj::str("USER"), kj::str("ada"), [](auto&, auto&&) {});
  EXPECT_EQ(c.run({"config", "node", "10.0.0.2", "10.0.0.3"}), 0);
  EXPECT_EQ(
      c.run({"config", "new", path, "--roles", "os:reader,os:etcd:backup", "--crt-ttl", "2h"}), 0)
      << err();
  EXPECT_EQ(out() + err(), "");
  EXPECT_EQ(self.requestedCertificate, "os:reader,os:etcd:backup for 7200 s"_kj);
  struct stat info;
  ASSERT_EQ(stat(path.cStr(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  auto made = Talosconfig::load(path);
  EXPECT_EQ(made.currentName(), "test"_kj);
  auto& context = made.resolve();
  EXPECT_EQ(kj::strArray(context.endpoints, ","), "127.0.0.1");
  EXPECT_EQ(kj::strArray(context.nodes, ","), "10.0.0.2,10.0.0.3");
  pki::checkPair(context.certificate, context.key);
  auto certificate = pki::inspect(context.certificate);
  EXPECT_EQ(kj::strArray(certificate.organizations, ","), "os:reader,os:etcd:backup");
  EXPECT_EQ(certificate.commonName, "ada"_kj);
  EXPECT_EQ(c.run({"--talosconfig", path, "-n", "10.0.0.2", "memory"}), 0) << err();
  out();

  auto before = readFile(path);
  EXPECT_EQ(c.run({"config", "new", path}), 1);
  EXPECT_THAT(err(), HasSubstr("already exists"));
  EXPECT_EQ(readFile(path), before);
  auto other = kj::str(c.folder, "/other"), link = kj::str(c.folder, "/link");
  ASSERT_EQ(symlink("other", link.cStr()), 0);
  for (auto& taken : {kj::str(link), kj::str(path, "/below")}) {
    EXPECT_EQ(c.run({"config", "new", taken}), 1);
    EXPECT_THAT(err(), HasSubstr(kj::str(taken, " already exists").cStr()));
  }
  EXPECT_NE(access(other.cStr(), F_OK), 0);
  EXPECT_EQ(c.run({"config", "new", other, "--roles", "os:impersonator"}), 1);
  EXPECT_THAT(err(), HasSubstr("use os:admin, os:operator"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "config", "new", other}), 1);
  EXPECT_THAT(err(), HasSubstr("no key here"));
  EXPECT_EQ(c.run({"-n", "10.0.0.2,10.0.0.3", "config", "new", other}), 1);
  EXPECT_THAT(err(), HasSubstr("one node signs"));
  EXPECT_NE(access(other.cStr(), F_OK), 0);
  EXPECT_EQ(c.run({"config", "new", other}), 0) << err();
  EXPECT_EQ(self.requestedCertificate, "os:admin for 31536000 s"_kj);
}

// Catches: a renewal that changes the name, the roles or other contexts, keeps the old key, or
// replaces a certificate before its successor is signed.
TEST_F(Targets, ConfigRenew) {
  auto& self = node("127.0.0.1");
  auto leaf = pki::issue(c.authority.certificate, c.authority.key,
                         {.commonName = "ada",
                          .organizations = kj::arr(kj::str("os:admin"), kj::str("os:reader")),
                          .server = false});
  c.writeConfig(c.authority, leaf);
  auto path = c.configPath();
  auto before = readFile(path);
  EXPECT_EQ(c.run({"config", "renew"}), 1);
  EXPECT_THAT(err(), HasSubstr("no key here"));
  EXPECT_EQ(readFile(path), before);
  auto stranger = pki::makeAuthority({.organization = "talos"});
  self.authority = &stranger;
  EXPECT_EQ(c.run({"config", "renew"}), 1);
  EXPECT_THAT(err(), HasSubstr("another CA"));
  EXPECT_EQ(readFile(path), before);

  self.authority = &c.authority;
  EXPECT_EQ(c.run({"config", "renew", "--crt-ttl", "2h"}), 0) << err();
  EXPECT_EQ(out(), "");
  EXPECT_THAT(err(), HasSubstr("renewed until 2"));
  EXPECT_EQ(self.requestedCertificate, "os:admin,os:reader for 7200 s"_kj);
  auto renewed = Talosconfig::load(path);
  auto& context = renewed.resolve();
  auto info = pki::inspect(context.certificate);
  EXPECT_EQ(info.commonName, "ada"_kj);
  EXPECT_EQ(kj::strArray(info.organizations, ","), "os:admin,os:reader");
  pki::checkPair(context.certificate, context.key);
  EXPECT_NE(kj::StringPtr(context.key), kj::StringPtr(leaf.key));
  EXPECT_EQ(context.ca, c.authority.certificate);
  EXPECT_EQ(kj::strArray(context.endpoints, ","), "127.0.0.1");
  EXPECT_EQ(c.run({"-n", "10.0.0.2", "memory"}), 0) << err();
}

}  // namespace
}  // namespace talos::talosctl
