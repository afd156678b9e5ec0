// iSCSI as docs/storage.md has it, step by step with the document's own files, on a virtual
// machine.
#include <gmock/gmock.h>
#include <kj/debug.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "tests/kubernetes/kube-cluster.h"
#include "tests/kubernetes/storage.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

constexpr uintmax_t kDisk = 64ull << 20;
constexpr double kAnswers = 30;

// Where the server listens for tgtadm; without it, all servers of a host would at one path.
std::string controlOf(const std::string& home) {
  return "TGT_IPC_SOCKET=" + home + "/control";
}

// An iSCSI target in user space, Debian's tgt, in the network of a local cluster: at the gateway's
// address, port 3260. Its disks are files of this object, and gone with it.
class IscsiTarget {
 public:
  struct Account {
    std::string user, password;
  };

  // Throws with its output if it does not listen within 60 s.
  explicit IscsiTarget(const KubeCluster& cluster);
  ~IscsiTarget();
  IscsiTarget(const IscsiTarget&) = delete;

  // Adds a new, empty disk of 64 MiB as LUN 1 of the target with this name. Initiators at any
  // address may log in; with an account, by CHAP as this account.
  void offer(const std::string& name, const std::optional<Account>& account = {});
  // Returns the path of the disk's file.
  std::string disk(const std::string& name) const;
  // Returns the initiators that are logged in, a line for each connection.
  std::string connections(const std::string& name) const;

 private:
  std::string home;
  std::map<std::string, unsigned> numbers;
  std::unique_ptr<harness::Background> process;

  harness::Result administer(std::vector<std::string> arguments) const;
  void require(std::vector<std::string> arguments) const;
};

IscsiTarget::IscsiTarget(const KubeCluster& cluster) {
  std::string pattern = "/tmp/iscsi-XXXXXX";  // short: it has a socket's path
  KJ_REQUIRE(mkdtemp(pattern.data()) != nullptr, pattern.c_str());
  home = pattern;
  process = std::make_unique<harness::Background>(std::vector<std::string>{
      "nsenter", "--net=/proc/" + std::to_string(cluster.segment()) + "/ns/net", "env",
      controlOf(home), "tgtd", "-f", "--iscsi", "portal=10.5.0.1:3260"});
  auto answers = [&] { return administer({"--op", "show", "--mode", "system"}).status == 0; };
  if (harness::eventually(answers, 60)) return;
  auto text = process->err();
  process = nullptr;
  fs::remove_all(home);
  KJ_FAIL_REQUIRE("the iSCSI target did not start", text.c_str());
}

IscsiTarget::~IscsiTarget() {
  process = nullptr;
  std::error_code ignored;
  fs::remove_all(home, ignored);
}

harness::Result IscsiTarget::administer(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {"tgtadm", "--lld", "iscsi"});
  return harness::run(arguments, kAnswers, {controlOf(home)});
}

void IscsiTarget::require(std::vector<std::string> arguments) const {
  auto result = administer(std::move(arguments));
  KJ_REQUIRE(result.status == 0, result.out.c_str(), result.err.c_str());
}

void IscsiTarget::offer(const std::string& name, const std::optional<Account>& account) {
  auto id = std::to_string(numbers.emplace(name, numbers.size() + 1).first->second);
  std::ofstream(disk(name)).close();
  fs::resize_file(disk(name), kDisk);
  require({"--op", "new", "--mode", "target", "--tid", id, "--targetname", name});
  require({"--op", "new", "--mode", "logicalunit", "--tid", id, "--lun", "1", "--backing-store",
           disk(name)});
  if (account) {
    require({"--op", "new", "--mode", "account", "--user", account->user, "--password",
             account->password});
    require({"--op", "bind", "--mode", "account", "--tid", id, "--user", account->user});
  }
  require({"--op", "bind", "--mode", "target", "--tid", id, "--initiator-address", "ALL"});
}

std::string IscsiTarget::disk(const std::string& name) const {
  return home + "/disk-" + std::to_string(numbers.at(name));
}

std::string IscsiTarget::connections(const std::string& name) const {
  return administer({"--op", "show", "--mode", "conn", "--tid", std::to_string(numbers.at(name))})
      .out;
}

constexpr double kReboots = 420;  // seconds, emulated, with what the kubelet waits for
// The image in the document's file, and the image that rootfs/kubernetes/images.sh makes.
const std::string kDocumentsImage = "registry.example.com/open-iscsi:2.1.11";
const std::string kImage = "docker.io/library/open-iscsi:2.1.11";
constexpr const char *kDisk1 = "iqn.2026-01.example:disk1", *kDisk2 = "iqn.2026-01.example:disk2";

// The indented blocks of a section of the document, without their indentation.
std::vector<std::string> blocksOf(const std::string& heading) {
  std::istringstream document(harness::slurp(std::string(DOCUMENTS) + "/storage.md"));
  const std::string indent(7, ' ');
  std::vector<std::string> blocks;
  bool inSection = false, inBlock = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("## ")) inSection = line == "## " + heading;
    bool indented = inSection && line.starts_with(indent);
    if (indented && !inBlock) blocks.emplace_back();
    if (indented) blocks.back() += line.substr(indent.size()) + "\n";
    inBlock = indented;
  }
  return blocks;
}

// Returns the document's file (second step of the document) with the name of an existing image.
std::string initiator() {
  auto text = harness::slurp(std::string(DOCUMENTS) + "/iscsi-initiator.yaml");
  EXPECT_THAT(harness::slurp(std::string(DOCUMENTS) + "/storage.md"),
              HasSubstr("sed 's#" + kDocumentsImage + "#<image>#' docs/iscsi-initiator.yaml"));
  EXPECT_THAT(text, HasSubstr(kDocumentsImage));
  for (size_t at; (at = text.find(kDocumentsImage)) != std::string::npos;) {
    text.replace(at, kDocumentsImage.size(), kImage);
  }
  return text;
}

// Returns the part in braces of the document's volume, for a pod, with another disk and `more`.
std::string volumeOf(const std::string& block, const std::string& name, const std::string& more) {
  auto begin = block.find("iscsi: {"), end = block.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return "";
  auto text = block.substr(begin, end - begin) + more + "}";
  auto at = text.find(kDisk1);
  return at == std::string::npos ? "" : text.replace(at, strlen(kDisk1), name);
}

std::string secret(const std::string& name, const IscsiTarget::Account& account) {
  return "apiVersion: v1\nkind: Secret\nmetadata: {name: " + name +
         "}\ntype: kubernetes.io/iscsi-chap\nstringData:\n  node.session.auth.username: " +
         account.user + "\n  node.session.auth.password: " + account.password + "\n";
}

class Iscsi : public Storage {
 protected:
  std::vector<std::string> blocks = blocksOf("iSCSI");

  // The document's first two steps.
  void createInitiator() {
    ASSERT_EQ(blocks.size(), 2u) << "a machine config and a pod's volume are expected";
    auto patch = folder + "/initiator.yaml";
    std::ofstream(patch) << blocks[0];
    create(1, {"--with-bootloader", "--config-patch-worker", "@" + patch});
    if (HasFailure()) return;
    cluster->apply(initiator());
    auto running = [&] {
      return cluster
                 ->kubectl({"get", "pods", "-n", "kube-system", "-l", "app=iscsi-initiator",
                            "--field-selector", "spec.nodeName=" + worker(1).name, "-o",
                            "jsonpath={.items[*].status.containerStatuses[*].ready}"})
                 .out == "true true";
    };
    ASSERT_TRUE(eventually(running, kRuns, 1)) << cluster->overview();
  }
  // Expects that no node uses the disk; `dead` names connections of a node that has been rebooted
  // since, which the target still counts.
  void expectUnused(const IscsiTarget& target, const std::string& name,
                    const std::string& dead = "") {
    EXPECT_TRUE(eventually([&] { return !contains(mounts(worker(1)), "iscsi"); }, kGone, 1))
        << mounts(worker(1));
    EXPECT_TRUE(eventually([&] { return target.connections(name) == dead; }, kGone, 1))
        << target.connections(name);
  }
  void remove(const std::string& pod) {
    cluster->ok({"delete", "pod", pod, "--timeout=120s"}, 150);
  }
};

}  // namespace

// Catches: steps of the document that do not lead there; a disk that no link names, or that is
// formatted again by the second pod; a session that stays after its pod, so that no other node gets
// the disk; a node that goes down with the file system mounted, or does not mount it after its
// boot.
TEST_F(Iscsi, DiskOfADocumentedInitiator) {
  ASSERT_NO_FATAL_FAILURE(createInitiator());
  if (HasFailure()) return;
  IscsiTarget target(*cluster);
  target.offer(kDisk1);
  auto volume = volumeOf(blocks[1], kDisk1, "");
  cluster->apply(pod("writer", worker(1),
                     "echo from-the-first >/data/file && echo done && sleep 100000", volume));
  ASSERT_TRUE(logHas("writer", "done")) << cluster->overview();
  EXPECT_THAT(mounts(worker(1)), testing::ContainsRegex("/dev/sd[a-z] [^ ]*iscsi[^ ]* ext4 rw"));
  EXPECT_THAT(target.connections(kDisk1), HasSubstr("Initiator: iqn."));
  remove("writer");
  expectUnused(target, kDisk1);
  EXPECT_THAT(harness::slurp(target.disk(kDisk1)), HasSubstr("from-the-first"));

  // The kubelet ends the pod for good while the node shuts down; another pod gets the disk
  // afterwards.
  cluster->apply(pod("reader", worker(1), "cat /data/file && sleep 100000", volume));
  ASSERT_TRUE(logHas("reader", "from-the-first")) << cluster->overview() << mountFailures();
  auto before = cluster->bootId(worker(1));
  auto reboot = cluster->talos.talosctl(cluster->at(worker(1), {"reboot"}), kReboots);
  fprintf(stderr, "    reboot: %.0f s\n", reboot.seconds);
  EXPECT_EQ(reboot.status, 0) << reboot.err << cluster->talos.console(worker(1).name);
  EXPECT_NE(cluster->bootId(worker(1)), before);
  remove("reader");
  auto dead = target.connections(kDisk1);
  cluster->apply(pod("later", worker(1), "cat /data/file && sleep 100000", volume));
  ASSERT_TRUE(logHas("later", "from-the-first")) << cluster->overview() << mountFailures();
  auto kernel = cluster->talos.ok(cluster->at(worker(1), {"dmesg"}));
  EXPECT_THAT(kernel, HasSubstr("EXT4-fs (sda): mounted"));
  EXPECT_THAT(kernel, Not(HasSubstr("EXT4-fs (sda): recovery complete"))) << "it was left mounted";
  EXPECT_NE(target.connections(kDisk1), dead);
  remove("later");
  expectUnused(target, kDisk1, dead);
}

// Catches: a secret that does not arrive at iscsid; a target that gives its disk to a node without
// the secret; a refusal whose reason is not in the pod's events.
TEST_F(Iscsi, TargetThatAsksWhoItIs) {
  ASSERT_NO_FATAL_FAILURE(createInitiator());
  if (HasFailure()) return;
  IscsiTarget target(*cluster);
  const IscsiTarget::Account right = {"node", "right-password"}, wrong = {"node", "wrong-password"};
  target.offer(kDisk2, right);
  cluster->apply(secret("right", right));
  cluster->apply(secret("wrong", wrong));
  auto with = [&](const char* name) {
    return volumeOf(blocks[1], kDisk2,
                    std::string(", chapAuthSession: true, secretRef: {name: ") + name + "}");
  };
  cluster->apply(pod("refused", worker(1), "echo mounted; sleep 100000", with("wrong")));
  std::string events;
  EXPECT_TRUE(mountFailsWith("refused", "login failed due to authorization failure", events))
      << events;
  EXPECT_EQ(logOf("refused"), "");
  EXPECT_EQ(target.connections(kDisk2), "");
  remove("refused");
  cluster->apply(
      pod("taken", worker(1), "echo >/data/file && echo done && sleep 100000", with("right")));
  EXPECT_TRUE(logHas("taken", "done")) << cluster->overview();
}

}  // namespace talos
