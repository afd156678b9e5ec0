// Failures of etcd on control-plane nodes in containers, as in docs/troubleshooting.md: each gives
// a message that names the cause, and the others keep running.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <fstream>
#include <map>
#include <regex>

#include "tests/cluster/etcd-nodes.h"
#include "tests/harness/filled-disk.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using harness::inMountsOf;
using harness::slurp;

const std::string kPki = "/etc/kubernetes/pki/etcd";
const std::map<std::string, std::string> kFiles = {
    {"/peer.crt", ".crt"}, {"/peer.key", ".key"}, {"/server.crt", ".crt"}, {"/server.key", ".key"}};

struct EtcdTroubles : public testing::Test {
  ~EtcdTroubles() noexcept override {}
  EtcdNodes nodes{"troubles", 3, {"--bootstrap=false"}};
  const EtcdNode &first = nodes[0], &second = nodes[1], &third = nodes[2];

  void patch(const EtcdNode& node, const std::string& text) {
    auto result = nodes.at(node, {"patch", "machineconfig", "--mode=no-reboot", "-p", text});
    ASSERT_EQ(0, result.status) << result.err;
  }
  void isWaiting() {
    for (auto& node : nodes.all()) {
      ASSERT_TRUE(nodes.says(node, "phase: waiting")) << nodes.statusOf(node);
    }
  }
  void rename(const EtcdNode& node, const std::string& name) {
    patch(node, "machine: {network: {hostname: " + name + "}}");
    ASSERT_TRUE(eventually(
        [&] { return contains(nodes.at(node, {"get", "etcdconfigs"}).out, name + " "); }, 60))
        << nodes.at(node, {"get", "etcdconfigs"}).out;
  }
  void power(const std::string& action, const EtcdNode& node) {
    nodes.cluster().ok({"cluster", "node", action, node.name}, 120);
  }
  pid_t pid(const EtcdNode& node) { return nodes.cluster().process(node.name); }

  void duplicateNames() {
    rename(third, "troubles-master-1");
    auto refused = nodes.at(first, {"bootstrap"});
    EXPECT_EQ(1, refused.status);
    EXPECT_TRUE(contains(refused.err,
                         "10.5.0.4 is another node with the name troubles-master-1, which must be "
                         "unique; set machine.network.hostname"))
        << refused.err;
    rename(third, "troubles-master-3");
  }
  // The name resolves to an address without a node.
  void dnsThatLies() {
    patch(first,
          "machine: {network: {extraHostEntries: [{ip: 10.5.0.99, aliases: [cp.example.org]}]}}\n"
          "cluster: {trustd: {endpoints: [cp.example.org]}}");
    auto refused = nodes.at(first, {"--timeout", "10s", "bootstrap"});
    EXPECT_EQ(1, refused.status);
    EXPECT_TRUE(contains(refused.err, "no answer from cp.example.org at 10.5.0.99 ("))
        << refused.err;
  }
  void fullDisk() {
    constexpr const char* kData = "/var/lib/etcd";
    inMountsOf(pid(third), [&] {
      return mount("tmpfs", kData, "tmpfs", 0, "size=40m,uid=60,gid=60,mode=0700");
    });
    power("pause", third);  // etcd takes one new member at a time
    auto made =
        nodes.at(first, {"bootstrap", "--without", "cp.example.org", "--without", third.address});
    ASSERT_EQ(0, made.status) << made.err;
    ASSERT_TRUE(nodes.haveVoters(first, 2)) << nodes.members(first);
    power("resume", third);
    EXPECT_TRUE(nodes.says(third, "the disk of /var/lib/etcd is full (")) << nodes.statusOf(third);
    EXPECT_TRUE(nodes.haveVoters(first, 2)) << nodes.members(first);
    EXPECT_TRUE(nodes.put(first, "/others", "keep running"));
    inMountsOf(pid(third), [&] { return umount2(kData, MNT_DETACH); });
    EXPECT_TRUE(nodes.haveVoters(first, 3)) << nodes.members(first) << nodes.statusOf(third);
  }
  // Signed by the cluster's CA, expired. Mounted over the files, which cannot be renamed then: the
  // node writes valid ones whenever a service changes, as its etcd does when a peer goes away.
  void expire(const EtcdNode& node) {
    auto folder = nodes.cluster().folder();
    auto config = slurp(nodes.cluster().stateFolder() + "/" + node.name + ".yaml");
    std::smatch match;
    ASSERT_TRUE(std::regex_search(
        config, match,
        std::regex(
            "etcd:\\s+(?:.*\\n\\s+)*?ca:\\s+crt: \"?([^\"\\s]+)\"?\\s+key: \"?([^\"\\s]+)")));
    std::ofstream(folder + "/ca.b64") << match[1].str() << "\n";
    std::ofstream(folder + "/key.b64") << match[2].str() << "\n";
    auto made = harness::run(
        {"bash", "-ec",
         "cd " + folder +
             "; base64 -d <ca.b64 >ca.crt; base64 -d <key.b64 >ca.key\n"
             "openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout old.key -out "
             "old.csr -subj /CN=old -addext subjectAltName=IP:10.5.0.4,IP:127.0.0.1\n"
             "openssl x509 -req -in old.csr -CA ca.crt -CAkey ca.key -copy_extensions copyall "
             "-not_before 20240101000000Z -not_after 20240201000000Z -out old.crt\n"},
        60);
    ASSERT_EQ(0, made.status) << made.err;
    made = harness::run({"bash", "-ec",
                         "cd " + folder + "; pki=/proc/" + std::to_string(pid(node)) + "/root" +
                             kPki + "; install -o 60 -g 60 -m 0600 old.crt old.key $pki"},
                        60);
    ASSERT_EQ(0, made.status) << made.err;
    inMountsOf(pid(node), [&] {
      int status = 0;
      for (auto& [file, kind] : kFiles) {
        status |=
            mount((kPki + ("/old" + kind)).c_str(), (kPki + file).c_str(), "", MS_BIND, nullptr);
      }
      return status;
    });
  }
  void renew(const EtcdNode& node) {
    inMountsOf(pid(node), [&] {
      int status = 0;
      for (auto& [file, kind] : kFiles) status |= umount2((kPki + file).c_str(), MNT_DETACH);
      return status;
    });
    EXPECT_EQ(0, nodes.at(node, {"service", "etcd", "restart"}).status);
  }
  void expiredCertificates() {
    expire(third);
    nodes.kill(second);  // a restarted node opens new connections
    nodes.start(second);
    EXPECT_TRUE(
        eventually([&] { return contains(nodes.members(second), "certificate has expired"); },
                   EtcdNodes::kTimeout))
        << nodes.members(second);
    EXPECT_TRUE(nodes.haveVoters(second, 2)) << nodes.members(second);
    EXPECT_TRUE(nodes.put(second, "/others", "keep running"));
    auto logs = [&] { return nodes.at(second, {"logs", "etcd"}).out; };
    EXPECT_TRUE(eventually([&] { return contains(logs(), "certificate has expired"); },
                           EtcdNodes::kTimeout))
        << logs();
    renew(third);
    EXPECT_TRUE(nodes.haveVoters(second, 3)) << nodes.members(second);
  }
};

}  // namespace

TEST_F(EtcdTroubles, AreNamedAndTheOthersKeepRunning) {
  isWaiting();
  duplicateNames();
  dnsThatLies();
  fullDisk();
  expiredCertificates();
}

}  // namespace talos
