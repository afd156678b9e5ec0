// Plain partitions of a machine whose power is cut while they are made.
#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machined/disk/encryption/test-model-luks.h"
#include "machined/disk/encryption/test-state-keys.h"
#include "machined/disk/volumes/system-partitions.h"
#include "machined/disk/volumes/test-volume-fakes.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;
using Keys = std::map<unsigned, std::string>;

constexpr kj::StringPtr kUuid = "00112233-4455-6677-8899-aabbccddeeff"_kj;

// A partition whose disk loses its cache with the power: an unfinished file system may then look
// like anything.
struct Formatting : testing::Test {
  ~Formatting() noexcept override {}
  enum class Content { kEmpty, kHalf, kXfs };
  struct ModelDisk final : Installer {
    Formatting& test;
    explicit ModelDisk(Formatting& test) : test(test) {}
    kj::Promise<void> slots(Fill, Hear, int) override { KJ_UNIMPLEMENTED("not in this test"); }
    kj::Promise<bool> run(Fill fill) override {
      capnp::MallocMessageBuilder message;
      auto request = message.initRoot<rpc::InstallRequest>();
      fill(request);
      if (request.isClear()) {
        test.step("clear", [&]() {
          if (request.getClear().getBytes() < test.bytes) return;  // mkfs writes everywhere
          test.content = Content::kEmpty;
          test.luks.content = Luks::Content::EMPTY;
        });
        co_return true;
      }
      if (request.getFormat().getEmpty() > 0 && test.content != Content::kEmpty) {
        fail(ErrorKind::kFailedPrecondition, "it holds something");
      }
      test.content = Content::kHalf;
      test.luks.content = Luks::Content::OTHER;
      test.step("format", [&]() { test.content = Content::kXfs; });
      co_return true;
    }
  };
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  static constexpr uint64_t kBytes = 100u << 20;
  uint64_t bytes = kBytes;
  kj::StringPtr label = "EPHEMERAL"_kj;
  Content content = Content::kEmpty;
  ModelLuks luks;
  ModelStateKeys stateKeys;
  ModelDisk installer{*this};
  ModelMarks marks;
  unsigned calls = 0, failAt = 0;
  bool effective = false;  // the failing call has had its effect
  std::string log, said;
  IgnoredReports ignored;
  SystemPartitions partitions{{.luks = luks,
                               .stateKeys = stateKeys,
                               .installer = installer,
                               .marks = marks,
                               .mappings = []() { return kj::Vector<kj::String>(); },
                               .uuid = []() { return kj::str(kUuid); },
                               .say = [this](kj::StringPtr line) { said += line.cStr(); },
                               .reports = ignored,
                               .backups = []() -> kj::Maybe<kj::String> { return nullptr; }}};
  Formatting() {
    marks.step = [this](kj::StringPtr what, kj::Function<void()> effect) {
      step(what, kj::mv(effect));
    };
  }
  void step(kj::StringPtr what, kj::Function<void()> effect) {
    bool fails = ++calls == failAt;
    if (!fails || effective) {
      effect();
      log += (log.empty() ? "" : " ") + std::string(what.cStr());
    }
    if (fails) fail(ErrorKind::kUnavailable, "the power is gone");
  }
  void setContent(Content what) {
    content = what;
    luks.content = what == Content::kEmpty ? Luks::Content::EMPTY : Luks::Content::OTHER;
  }
  // Returns "" if the partition can be mounted.
  std::string prepare(kj::Maybe<FileSystem> detected, Encryption how = nullptr,
                      kj::StringPtr name = "EPHEMERAL",
                      EncryptionFrom from = EncryptionFrom::kMainDocument) {
    Volume volume;
    volume.device.name = kj::str("vda6");
    volume.device.bytes = bytes;
    volume.device.partitionName = kj::str(name);
    volume.device.begin = 503u << 20;
    KJ_IF_MAYBE (type, detected) volume.content = Superblock{*type, kj::str()};
    calls = 0;
    log.clear();
    KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                   partitions.prepare(volume, label, how, KeyCare::kPutRight, from).wait(scope);
                 })) {
      return messageOf(*e).cStr();
    }
    return "";
  }
};

// Catches: a mark that is set too late or removed too early, so that a cut leaves a partition that
// no boot accepts; a mark that stays, so that a later boot formats a partition in use.
TEST_F(Formatting, IsBegunAgainAfterACutAnywhere) {
  unsigned cuts = 0;
  for (unsigned at = 1; at < 5; ++at) {
    for (bool late : {false, true}) {
      // With and without a superblock, the last write, that reached the disk first.
      for (auto detected : {kj::Maybe<FileSystem>(FileSystem::kXfs), kj::Maybe<FileSystem>()}) {
        SCOPED_TRACE(at);
        setContent(Content::kEmpty);
        marks.marks.clear();
        failAt = at, effective = late;
        auto cut = prepare(nullptr);
        cuts += !cut.empty();
        EXPECT_EQ(cut.empty(), at > 3);
        failAt = 0;
        auto now = content == Content::kXfs    ? kj::Maybe<FileSystem>(FileSystem::kXfs)
                   : content == Content::kHalf ? detected
                                               : kj::Maybe<FileSystem>();
        EXPECT_EQ(prepare(now), "");
        EXPECT_EQ(content, Content::kXfs);
        EXPECT_EQ(prepare(FileSystem::kXfs), "");
        EXPECT_EQ(log, "") << "formatted once more";
      }
    }
  }
  EXPECT_EQ(cuts, 12u);
}

// Catches: a format that continues without its mark; a node without META that cannot be made; an
// installation, which does not have META yet, that leaves marks.
TEST_F(Formatting, IsMarkedWhereThereIsMeta) {
  EXPECT_EQ(prepare(nullptr), "");
  EXPECT_EQ(log, "mark format unmark");
  setContent(Content::kEmpty);
  failAt = 1;
  EXPECT_EQ(prepare(nullptr), "the power is gone");
  EXPECT_EQ(content, Content::kEmpty);
  failAt = 0;
  EXPECT_EQ(prepare(nullptr, nullptr, "EPHEMERAL.unfinished"), "");
  EXPECT_EQ(log, "format");
  setContent(Content::kEmpty);
  marks.hasMeta = false;
  EXPECT_EQ(prepare(nullptr), "");
  EXPECT_EQ(log, "format");
}

// Catches: a partition that a boot refuses and the next boot formats, because the first one has
// marked it; data for its recovery that is removed before the refusal; a refusal that does not say
// what to do, or advises a reset that a node without a config does not carry out.
TEST_F(Formatting, WhatIsRefusedStaysRefused) {
  stateKeys.text = "the list";
  for (auto name : {"EPHEMERAL"_kj, "STATE"_kj}) {
    label = name;
    std::string remedy =
        name == "STATE" ? ", or, if nothing on it is needed, wipe the partition, reboot, and apply "
                          "the config again"
                        : ", or, if nothing on it is needed, use talosctl reset --reboot "
                          "--system-labels-to-wipe=EPHEMERAL";
    setContent(Content::kHalf);
    for (unsigned boot = 0; boot < 3; ++boot) {
      EXPECT_EQ(prepare(nullptr, nullptr, name),
                "/dev/vda6 is not empty, but has no readable file system; repair it" + remedy);
      EXPECT_EQ(log, "");
    }
    luks.problem = "begins with zeros and has data behind them";
    EXPECT_EQ(prepare(nullptr, nullptr, name),
              "/dev/vda6 " + luks.problem + "; restore its header" + remedy);
    luks.problem.clear();
    EXPECT_TRUE(marks.marks.empty());
  }
  EXPECT_EQ(stateKeys.text.orDefault(""), "the list");
  setContent(Content::kXfs);
  EXPECT_EQ(prepare(FileSystem::kXfs, nullptr, label), "");
  EXPECT_TRUE(stateKeys.text == nullptr) << "it is plain now";
}

// Catches: a mark that is overlooked, because META does not answer, and followed by a later boot,
// which formats a partition that was used meanwhile.
TEST_F(Formatting, AMarkThatIsNotKnownIsNoNone) {
  marks.marks["EPHEMERAL"] = 503u << 20;
  marks.answers = false;
  setContent(Content::kXfs);
  EncryptionRequest wanted({{0, "a"}});
  EXPECT_EQ(prepare(FileSystem::kXfs), "META did not respond");
  EXPECT_EQ(prepare(nullptr), "META did not respond");
  EXPECT_EQ(prepare(FileSystem::kXfs, wanted.get()), "META did not respond");
  EXPECT_EQ(log, "");
}

// Catches: a mark that is followed for content that mkfs cannot have left, or on another partition;
// an unfinished plain file system that blocks the encryption that the config requests now.
TEST_F(Formatting, AMarkCountsForWhatMkfsCanHaveLeft) {
  setContent(Content::kXfs);
  marks.marks["EPHEMERAL"] = 503u << 20;
  EXPECT_THAT(prepare(FileSystem::kLuks), HasSubstr("is encrypted, but the config has no"));
  EXPECT_EQ(prepare(FileSystem::kExt4), "");
  EXPECT_EQ(log, "");
  marks.marks["EPHEMERAL"] = 504u << 20;
  EXPECT_EQ(prepare(FileSystem::kXfs), "");
  EXPECT_EQ(log, "");

  EncryptionRequest wanted({{0, "a"}});
  EXPECT_THAT(prepare(FileSystem::kXfs, wanted.get()), HasSubstr("is not encrypted (xfs)"));
  marks.marks["EPHEMERAL"] = 503u << 20;
  EXPECT_EQ(prepare(FileSystem::kXfs, wanted.get()), "");
  EXPECT_EQ(log, "clear unmark format");
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}}));
}

// Catches: a node that does not boot with its new release, because its config has had a
// VolumeConfig that releases of before did not carry out; one that hides that its data is not
// encrypted.
TEST_F(Formatting, VolumeConfigLeavesAPartitionInUsePlain) {
  EncryptionRequest wanted({{0, "a"}});
  auto from = EncryptionFrom::kVolumeConfig;
  setContent(Content::kXfs);
  EXPECT_EQ(prepare(FileSystem::kXfs, wanted.get(), "EPHEMERAL", from), "");
  EXPECT_EQ(log, "");
  EXPECT_EQ(said,
            "warning: VolumeConfig[EPHEMERAL].encryption: not in effect: the partition is not "
            "encrypted; reset EPHEMERAL to encrypt it");
  marks.marks["EPHEMERAL"] = 503u << 20;
  EXPECT_EQ(prepare(FileSystem::kXfs, wanted.get(), "EPHEMERAL", from), "");
  EXPECT_EQ(log, "clear unmark format") << "its file system was never complete";
  EXPECT_EQ(luks.slots, (Keys{{0, "a"}}));
}

TEST(EncryptionFrom, ListOfDocumentsSaysIt) {
  capnp::MallocMessageBuilder message;
  auto config = message.initRoot<config::Config>();
  config.initDocuments(1).set(0, "VolumeConfig");
  EXPECT_EQ(encryptionPath(encryptionFrom(config, "EPHEMERAL"), "EPHEMERAL"),
            "machine.systemDiskEncryption.ephemeral");
  config.initDocuments(1).set(0, "VolumeConfig[EPHEMERAL].encryption");
  EXPECT_EQ(encryptionPath(encryptionFrom(config, "EPHEMERAL"), "EPHEMERAL"),
            "VolumeConfig[EPHEMERAL].encryption");
  EXPECT_EQ(encryptionPath(encryptionFrom(config, "STATE"), "STATE"),
            "machine.systemDiskEncryption.state");
}

}  // namespace
}  // namespace talos::machined
