// iSCSI as docs/storage.md has it, step by step with the document's own files, on a virtual
// machine.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "tests/kubernetes/iscsi-target.h"
#include "tests/kubernetes/storage.h"

namespace talos {
namespace {

using harness::contains;
using harness::eventually;
using testing::HasSubstr;
using testing::Not;

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
