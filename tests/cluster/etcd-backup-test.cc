// cluster.etcd.backup on three control-plane nodes in containers, with a store of the S3 API in
// their network: etcd's leader uploads, and a real etcd serves the uploaded data.
#include <gtest/gtest.h>

#include <fstream>

#include "backupd/test-s3-server.h"
#include "common/testing/test-port.h"
#include "tests/cluster/etcd-nodes.h"
#include "tests/harness/network-server.h"
#include "tests/harness/process.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;

constexpr auto kTimeout = EtcdNodes::kTimeout;

using Objects = std::map<std::string, std::string>;

Objects objectsOf(backupd::S3Server& server) {
  server.objects.emplace("other/notes.txt", "x");  // a foreign object
  return server.objects;
}

// The nodes' backups, and the key of their owner.
class Backups {
 public:
  explicit Backups(const EtcdNodes& nodes)
      : nodes(nodes),
        folder(nodes.cluster().folder()),
        store(nodes.cluster(), {.port = 9000}, objectsOf) {
    auto made = harness::run({"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                              "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder + "/key.pem",
                              "-out", folder + "/certificate.pem", "-subj", "/CN=backup"});
    EXPECT_EQ(0, made.status) << made.err;
  }

  // JSON Patch of a control-plane node's config.
  std::string patch(unsigned keep) const {
    auto encoded = harness::run({"base64", "-w0", folder + "/certificate.pem"}).out;
    return R"([{"op": "add", "path": "/cluster/etcd/backup", "value": {"endpoint": )"
           R"("http://10.5.0.1:9000", "bucket": "backups", "prefix": "c1/", "region": )"
           R"("eu-central-1", "accessKey": "AKIATEST", "secretKey": "wJalrXUtnFEMI/K7MDENG", )"
           R"("every": "10s", "keep": )" +
           std::to_string(keep) + R"(, "encryptTo": ")" + encoded + "\"}}]";
  }
  std::string stateAt(const EtcdNode& node) const {
    return nodes.at(node, {"--timeout", "10s", "get", "etcdbackupstatus", "-o", "yaml"}).out;
  }
  bool isAt(const EtcdNode& node, const std::string& text) const {
    return eventually([&] { return contains(stateAt(node), text); }, kTimeout, 0.3);
  }
  // Returns the names of the cluster's snapshots, sorted. A foreign file has no signature and does
  // not count.
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    auto all = store.seen();
    for (auto& [name, content] : all) {
      bool isOurs = name.rfind("c1/", 0) == 0 && all.count(name + ".sig") > 0;
      if (isOurs) found.push_back(name);
    }
    return found;
  }
  // The statement of the newest one's signature, as OpenSSL reads it with the CA of etcd.
  std::string statementOfNewest(const EtcdNode& node) const {
    std::ofstream(folder + "/etcd.sig", std::ios::binary) << store.seen()[names().back() + ".sig"];
    auto shown =
        nodes.at(node, {"get", "etcdconfigs", "etcd", "-o", "jsonpath={.spec.authorities}"});
    std::ofstream(folder + "/etcd-ca.pem") << shown.out;
    auto verified = harness::run({"openssl", "cms", "-verify", "-inform", "DER", "-in",
                                  folder + "/etcd.sig", "-CAfile", folder + "/etcd-ca.pem",
                                  "-purpose", "sslserver", "-no_check_time"});
    EXPECT_EQ(0, verified.status) << verified.err;
    return verified.out;
  }
  bool grows(size_t count) const {
    return eventually([&] { return names().size() >= count; }, kTimeout, 0.2);
  }
  bool hasNewer(const std::string& name) const {
    return eventually([&] { return !names().empty() && names().back() > name; }, kTimeout, 0.2);
  }
  // Returns the newest snapshot, decrypted with the key of its owner.
  std::string decryptNewest() const {
    auto name = names().back();
    std::ofstream(folder + "/etcd.cms", std::ios::binary) << store.seen()[name];
    auto decrypt = harness::run({"openssl", "cms", "-decrypt", "-binary", "-inform", "DER", "-in",
                                 folder + "/etcd.cms", "-inkey", folder + "/key.pem", "-out",
                                 folder + "/etcd.db"});
    EXPECT_EQ(0, decrypt.status) << decrypt.err;
    return folder + "/etcd.db";
  }

  const EtcdNodes& nodes;
  std::string folder;
  harness::NetworkServer<backupd::S3Server, Objects> store;  // at http://10.5.0.1:9000
};

// All keys and values below a prefix, of an etcd that was made of the snapshot on this host.
std::string contentOf(const std::string& snapshot, const std::string& folder,
                      const std::string& prefix) {
  auto url = [] { return "http://127.0.0.1:" + std::to_string(freePort()); };
  const std::string data = folder + "/restored", peer = url(), client = url();
  auto restored =
      harness::run({"etcdutl", "snapshot", "restore", snapshot, "--data-dir", data, "--name", "m",
                    "--initial-cluster", "m=" + peer, "--initial-advertise-peer-urls", peer});
  EXPECT_EQ(0, restored.status) << restored.out << restored.err;
  harness::Background etcd({"etcd", "--name", "m", "--data-dir", data, "--listen-client-urls",
                            client, "--advertise-client-urls", client, "--listen-peer-urls", peer,
                            "--initial-advertise-peer-urls", peer, "--initial-cluster", "m=" + peer,
                            "--logger", "zap", "--log-level", "error"});
  harness::Result shown;
  EXPECT_TRUE(eventually(
      [&] {
        shown = harness::run({"etcdctl", "--endpoints", client, "get", "--prefix", prefix});
        return shown.status == 0;
      },
      kTimeout, 0.2))
      << shown.err;
  etcd.interrupt(kTimeout);
  return shown.out;
}

}  // namespace

// Catches: three members that each upload; a series that ends with the leader, the program or the
// store; a snapshot that no etcd can serve; a secret in a record that readers see.
TEST(EtcdBackup, GoesOnWithWhoeverLeads) {
  EtcdNodes nodes("backup", 3, {"--bootstrap=true", "--no-uplink"});
  ASSERT_TRUE(nodes.haveVoters(nodes[0], 3)) << nodes.members(nodes[0]);
  Backups backups(nodes);
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    auto key = "/backup/" + std::to_string(1000 + i);
    ASSERT_TRUE(eventually([&] { return nodes.put(nodes[0], key, "value of " + key); }, kTimeout));
    expected += key + "\nvalue of " + key + "\n";
  }
  for (auto& node : nodes.all()) {
    auto patched = nodes.at(node, {"patch", "mc", "--immediate", "-p", backups.patch(3)});
    ASSERT_EQ(0, patched.status) << patched.err;
  }
  ASSERT_TRUE(backups.grows(1)) << backups.stateAt(nodes[0]);
  EXPECT_EQ(expected, contentOf(backups.decryptNewest(), backups.folder, "/backup/"));
  EXPECT_TRUE(contains(backups.statementOfNewest(nodes[0]), "snapshot of etcd, 1"));
  std::vector<EtcdNode> leaders;
  for (auto& node : nodes.all()) {
    ASSERT_TRUE(backups.isAt(node, "phase: "));
    if (!contains(backups.stateAt(node), "phase: standby")) leaders.push_back(node);
  }
  ASSERT_EQ(1u, leaders.size());
  auto leader = leaders[0];
  auto table = nodes.at(leader, {"get", "etcdbackupstatus"});
  EXPECT_TRUE(contains(table.out, "etcd-20")) << table.out;

  // The program dies; its successor continues the series.
  auto before = backups.names().back();
  ::kill(nodes.cluster().program(leader.name, "etcd-supervisor"), SIGKILL);
  EXPECT_TRUE(backups.hasNewer(before)) << backups.stateAt(leader);
  EXPECT_TRUE(eventually([&] { return backups.names().size() == 3; }, kTimeout, 0.2));

  backups.store.away = true;
  EXPECT_TRUE(backups.isAt(leader, "Connection refused; retry in")) << backups.stateAt(leader);
  EXPECT_TRUE(contains(backups.stateAt(leader), "newest: etcd-")) << backups.stateAt(leader);
  backups.store.away = false;
  before = backups.names().back();
  EXPECT_TRUE(backups.hasNewer(before)) << backups.stateAt(leader);

  nodes.kill(leader);
  before = backups.names().back();
  EXPECT_TRUE(backups.hasNewer(before));
  // A snapshot is stored before the one that it replaces is deleted.
  EXPECT_TRUE(eventually([&] { return backups.names().size() <= 3; }, kTimeout, 0.2));
  EXPECT_EQ("x", backups.store.seen()["other/notes.txt"]);

  auto& other = nodes[0].name == leader.name ? nodes[1] : nodes[0];
  for (auto& text : {nodes.at(other, {"logs", "etcd-supervisor"}).out, backups.stateAt(other),
                     nodes.at(other, {"logs", "machined"}).out}) {
    EXPECT_FALSE(text.empty());
    EXPECT_FALSE(contains(text, "wJalrXUtnFEMI")) << "a secret is shown";
  }
}

}  // namespace talos
