#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/file.h"
#include "common/testing/later-message.h"
#include "common/testing/test-tree.h"
#include "common/wire/secret-file.h"
#include "machined/disk/devices/meta-values.h"
#include "machined/disk/volumes/node-reset.h"
#include "machined/kubernetes/kept-versions.h"
#include "machined/kubernetes/kubernetes-secrets.h"
#include "machined/system/appended-text.h"
#include "machined/upgrade/node-duties.h"
#include "machined/upgrade/upgrade-record.h"
#include "machined/upgrade/upgrade-to-config-image.h"
#include "rpc/effects.capnp.h"
#include "rpc/node-duties.capnp.h"

namespace talos::machined {
namespace {

std::string readUpgrade(unsigned stage) {
  auto bytes = laterMessage<rpc::UpgradeRecord>([&](rpc::UpgradeRecord::Builder out) {
    out.setImage("r/i:v2");
    out.setFrom("A");
    out.setTo("B");
    out.setEmptying(true);
    out.setStage(static_cast<rpc::UpgradeRecord::Stage>(stage));
  });
  auto record = KJ_ASSERT_NONNULL(decodeRecord(bytes));
  return kj::str(record.image, " ", nameOf(record.from), nameOf(record.to), " ", record.emptying,
                 " ", static_cast<unsigned>(record.stage), record.isOver() ? " over" : "")
      .cStr();
}

std::string readDuties() {
  auto bytes = laterMessage<rpc::NodeDuties>([](rpc::NodeDuties::Builder out) {
    out.initFulfilled(2).set(0, "clock");
    out.getFulfilled().set(1, "later duty");
    out.setUpgrade(7);
  });
  auto record = KJ_ASSERT_NONNULL(decodeDuties(bytes));
  return kj::str(kj::strArray(record.fulfilled, ","), " ",
                 (record.upgrade - kj::UNIX_EPOCH) / kj::NANOSECONDS)
      .cStr();
}

std::string readPending() {
  auto text = encodePendingImage(PendingImage{kj::str("r/i:v2")});
  auto one = KJ_ASSERT_NONNULL(
      decodePendingImage(kj::str(text.slice(0, text.size() - 1), " later\nlater line\n")));
  return kj::str(one.image, " ", one.refused, " ", one.cuts).cStr();
}

std::string readSecrets() {
  TestTree tree;
  auto bytes = laterMessage<rpc::KubernetesSecretsSpec>(
      [](rpc::KubernetesSecretsSpec::Builder out) { out.setAdminKubeconfig("k"); });
  writeFileAtomically(tree.at("secrets"), bytes, 0600);
  auto message = KJ_ASSERT_NONNULL(readKeptSecrets(tree.at("secrets")));
  writeSecretFile(tree.at("secrets"), *message);
  auto again = readFile(tree.at("secrets"));
  auto kept = std::string_view(again.begin(), again.size());
  return kept.find(kLaterField.cStr()) == kept.npos ? "lost" : "kept";
}

std::string readAppended() {
  auto bytes = laterMessage<rpc::AppendedBlocks>([](rpc::AppendedBlocks::Builder out) {
    auto file = out.initFiles(1)[0];
    file.setPath("/var/a");
    file.initBlocks(1).set(0, "\nb"_kj.asBytes());
  });
  return kj::str(AppendedNotes::parse(bytes).of("/var/a").size()).cStr();
}

std::string readMeta() {
  auto partition = kj::heapArray<kj::byte>(kMetaBytes);
  memset(partition.begin(), 0, partition.size());
  auto write = [&](uint32_t tag, kj::StringPtr value) {
    MetaValues values(partition);
    values.set(tag, value.asBytes());
    for (auto& one : values.writes()) {
      memcpy(partition.begin() + one.offset, one.bytes.begin(), one.bytes.size());
    }
  };
  write(0x4c415445, "later");
  write(static_cast<uint32_t>(MetaTag::kVersionFloor), "v1");
  MetaValues values(partition);
  return kj::heapString(KJ_ASSERT_NONNULL(values.get(0x4c415445)).asChars()).cStr();
}

std::string readReset() {
  auto erases = [](kj::StringPtr mark) {
    KJ_IF_MAYBE (request, requestOfMark(mark)) return request->labels.size();
    return size_t(0);
  };
  return kj::str(erases("reboot STATE"), " ", erases("reboot STATE LATER")).cStr();
}

std::string readVersions() {
  kj::Vector<kj::String> unknown;
  auto line = kj::str("kube-apiserver 5 ", kj::repeat('a', 64));
  auto found = readKeptVersions(kj::str("@later 2\n", line, " later\n"), unknown);
  return kj::str(KJ_ASSERT_NONNULL(found.find("kube-apiserver"_kj)).version, " ",
                 kj::strArray(unknown, ","))
      .cStr();
}

// Catches: a record on disk of a later release that this release, after a fall-back, ignores
// completely, or destroys for the later one. Issued certificates, keys of STATE, and the intent of
// etcd-supervisor have such a test beside their code. An unknown reset is ignored with a warning,
// because it might erase more than the user requested. A config with unknown keys ends the boot,
// which names them, and stays on disk.
TEST(LaterRecords, AreReadAfterAFallBack) {
  struct Row {
    const char *record, *read;
    std::string is;
  };
  const Row rows[] = {
      {"upgrade", "r/i:v2 AB true 2", readUpgrade(2)},
      {"upgrade in a stage that is unknown", "r/i:v2 AB true 2", readUpgrade(77)},
      {"duties", "clock,later duty 7", readDuties()},
      {"pending image", "r/i:v2 false 0", readPending()},
      {"certificates of Kubernetes", "kept", readSecrets()},
      {"appended blocks", "1", readAppended()},
      {"META", "later", readMeta()},
      {"reset", "1 0", readReset()},
      {"versions of Kubernetes' manifests", "5 @later 2", readVersions()},
  };
  for (auto& row : rows) EXPECT_EQ(row.read, row.is) << row.record;
}

}  // namespace
}  // namespace talos::machined
