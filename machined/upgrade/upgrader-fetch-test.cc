// Images that are fetched before their upgrade.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machined/upgrade/test-upgrader.h"

namespace talos::machined {
namespace {

using testing::HasSubstr;

struct FetchTest : public UpgraderTest {
  ~FetchTest() noexcept override {}
  static constexpr kj::StringPtr kUrl = "https://h.example/i.tar"_kj;

  // Returns "<digest> <version> signed".
  std::string fetch(System& node, UpgradeRequest request, bool keep = true) {
    node.archives.held = nullptr;
    auto asking = node.upgrader.fetch(kj::mv(request), keep);
    arrive(node, asking);
    auto fetched = asking.wait(scope);
    return kj::str(fetched.digest, " ", fetched.version, fetched.isSigned ? " signed" : "").cStr();
  }
  template <typename T>
  void arrive(System& node, kj::Promise<T>& asking) {
    for (int i = 0; i < 20 && !asking.poll(scope); ++i) {
      KJ_IF_MAYBE (held, node.archives.held) {
        if ((*held)->isWaiting()) (*held)->fulfill();
      }
    }
  }
  static UpgradeRequest sent(kj::byte digest) {
    UpgradeRequest request{kj::str("./i.tar"), true};
    request.file = ClientFile{.bytes = nullptr,
                              .size = 5,
                              .sha256 = kj::heapArray<kj::byte>({digest}),
                              .signature = nullptr};
    return request;
  }
};

// Catches: a fetch that writes, drains, queries etcd or reboots; a state that stays "fetching"; a
// version or a signature that is not the image's.
TEST_F(FetchTest, ItChangesNothing) {
  System node(disk);
  node.boot(scope);
  EXPECT_EQ(fetch(node, {kj::str(kUrl)}), "https://h.example/i.tar#sha256=12 v3");
  node.key = "PEM";
  EXPECT_EQ(fetch(node, {kj::str(kUrl)}), "https://h.example/i.tar#sha256=12 v3 signed");
  EXPECT_EQ(node.archives.asked, "fetch /i.tar 0 PEM");
  EXPECT_EQ(node.status(), "none A v1: ");
  EXPECT_EQ(disk.written, "");
  EXPECT_TRUE(disk.record == nullptr);
  EXPECT_TRUE(node.etcdAsked.empty());
  EXPECT_EQ(node.reboots, 0u);
  auto asking = node.upgrader.fetch({kj::str(kUrl)}, true).eagerlyEvaluate(nullptr);
  scope.poll();
  EXPECT_EQ(node.status(), "fetching A v1: 30 % of 100 MiB");
  EXPECT_THAT(problem(node.upgrader.upgrade({kj::str("r/i:v2"), true})), HasSubstr("under way"));
}

// Catches: a system that would refuse the config of its node, and that is written, fetched for
// later, or refused without naming the key; a system that does not list its keys, and is refused.
TEST_F(FetchTest, ASystemKnowsTheKeysOfTheConfig) {
  System node(disk);
  node.boot(scope);
  node.configKeys = {"machine.token", "machine.time.newer"};
  EXPECT_EQ(fetch(node, {kj::str(kUrl)}), "https://h.example/i.tar#sha256=12 v3");
  disk.imageConfigKeys = "machine.time.newer\nmachine.token\n";
  EXPECT_EQ(fetch(node, {kj::str(kUrl)}), "https://h.example/i.tar#sha256=12 v3");
  disk.imageConfigKeys = "machine.token\n";
  constexpr auto kWhy =
      ": v3 does not know a key of this node's config: machine.time.newer; nothing was written; "
      "use --force to install it all the same";
  auto refused =
      KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&] { fetch(node, {kj::str(kUrl)}); }));
  EXPECT_THAT(messageOf(refused).cStr(), HasSubstr(kWhy));
  node.archives.held = nullptr;
  auto upgrade = node.upgrader.upgrade({kj::str(kUrl), true});
  arrive(node, upgrade);
  EXPECT_THAT(problem(kj::mv(upgrade)), HasSubstr(kWhy));
  EXPECT_EQ(disk.written, "");
  EXPECT_EQ(node.reboots, 0u);
  UpgradeRequest forced{kj::str(kUrl), true};
  forced.force = true;
  EXPECT_EQ(fetch(node, kj::mv(forced)), "https://h.example/i.tar#sha256=12 v3");
}

// Catches: an image for which BOOT has no room, and that is refused only when it is written.
TEST_F(FetchTest, ASystemThatDoesNotFitIsRefusedAtOnce) {
  disk.tooLarge = "the new system is too large: it needs 400 MiB";
  System node(disk);
  node.boot(scope);
  for (bool force : {false, true}) {
    UpgradeRequest request{kj::str(kUrl), true}, other{kj::str(kUrl), true};
    request.force = other.force = force;
    auto refused =
        KJ_ASSERT_NONNULL(kj::runCatchingExceptions([&] { fetch(node, kj::mv(request)); }));
    EXPECT_THAT(messageOf(refused).cStr(), HasSubstr(disk.tooLarge));
    node.archives.held = nullptr;
    auto upgrade = node.upgrader.upgrade(kj::mv(other));
    arrive(node, upgrade);
    EXPECT_THAT(problem(kj::mv(upgrade)), HasSubstr(disk.tooLarge));
  }
  EXPECT_EQ(disk.written, "");
  EXPECT_TRUE(disk.record == nullptr);
  EXPECT_EQ(node.reboots, 0u);
}

// Catches: an image that is fetched twice; an image that is kept although this was not requested.
TEST_F(FetchTest, AnUpgradeToItsDigestTakesWhatIsKept) {
  for (bool keep : {true, false}) {
    disk.environment = {};
    disk.record = nullptr;
    disk.written.clear();
    System node(disk);
    node.boot(scope);
    EXPECT_EQ(fetch(node, sent(0x12), keep), "sha256:12 v3");
    node.archives.asked.clear();
    auto text = problem(node.upgrader.upgrade({kj::str("sha256:12"), true, 60}));
    scope.poll();
    EXPECT_EQ(node.archives.asked, "");
    if (!keep) {
      EXPECT_THAT(text, HasSubstr("does not keep the image sha256:12, which was a file; send"));
      EXPECT_EQ(disk.written, "");
      continue;
    }
    EXPECT_EQ(text, "");
    EXPECT_EQ(disk.written, "B vmlinuz 512 a=1");
    EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).digest, "sha256:12");
    EXPECT_EQ(node.reboots, 1u);
  }
}

// Catches: an image that is lost, and has to be sent again, because another node had its turn.
TEST_F(FetchTest, ARefusalKeepsIt) {
  System node(disk);
  node.boot(scope);
  fetch(node, sent(0x12));
  node.etcdRefuses = "restarts";
  EXPECT_THAT(problem(node.upgrader.upgrade({kj::str("sha256:12"), true})), HasSubstr("1 voter"));
  node.etcdRefuses = "";
  EXPECT_EQ(problem(node.upgrader.upgrade({kj::str("sha256:12"), true})), "");
  scope.poll();
  EXPECT_EQ(disk.written, "B vmlinuz 512 a=1");
}

// Catches: an image whose signature was verified with another key; a kept image that stays on the
// disk for ever; another image that is written because it was kept.
TEST_F(FetchTest, WhatIsKeptEnds) {
  System node(disk);
  node.boot(scope);
  fetch(node, sent(0x12));
  node.key = "PEM";
  EXPECT_THAT(problem(node.upgrader.upgrade({kj::str("sha256:12"), true})), HasSubstr("send"));
  fetch(node, sent(0x12));
  node.timer.advanceTo(node.timer.now() + 59 * kj::MINUTES);
  scope.poll();
  fetch(node, sent(0x12));  // again, for another hour
  node.timer.advanceTo(node.timer.now() + 59 * kj::MINUTES);
  scope.poll();
  node.etcdRefuses = "may restart";
  EXPECT_THAT(problem(node.upgrader.upgrade({kj::str("sha256:12"), true})), HasSubstr("1 voter"));
  node.etcdRefuses = "";
  node.timer.advanceTo(node.timer.now() + 2 * kj::MINUTES);
  scope.poll();
  EXPECT_THAT(problem(node.upgrader.upgrade({kj::str("sha256:12"), true})), HasSubstr("send"));
  fetch(node, sent(0x12));
  auto other = node.upgrader.fetch({kj::str(kUrl)}, true);
  scope.poll();
  node.archives.problem = "it is damaged";
  KJ_ASSERT_NONNULL(node.archives.held)->fulfill();
  EXPECT_EQ(problem(kj::mv(other)), "it is damaged");
  EXPECT_THAT(problem(node.upgrader.upgrade({kj::str("sha256:12"), true})), HasSubstr("send"));
  EXPECT_EQ(disk.written, "");
}

// Catches: an image of a registry that is pulled twice, or whose view is lost before it is written.
TEST_F(FetchTest, AnImageOfARegistryIsKeptByItsDigest) {
  System node(disk);
  node.boot(scope);
  node.pulls.registry["r/i:v2"] = "sha256:aa";
  auto asking = node.upgrader.fetch({kj::str("r/i:v2")}, true);
  for (int i = 0; i < 50 && !asking.poll(scope); ++i) {
    node.timer.advanceTo(node.timer.now() + 1 * kj::SECONDS);
  }
  auto fetched = asking.wait(scope);
  EXPECT_EQ(fetched.digest, "r/i@sha256:aa");
  EXPECT_EQ(fetched.version, "v3");
  EXPECT_EQ(node.pulls.asked, 1u);
  auto upgrading = node.upgrader.upgrade({kj::str("r/i@sha256:aa"), true});
  upgrading.wait(scope);
  for (int i = 0; i < 50 && node.reboots == 0; ++i) scope.poll();
  EXPECT_EQ(node.pulls.asked, 1u);
  EXPECT_EQ(node.reboots, 1u);
  EXPECT_EQ(KJ_ASSERT_NONNULL(disk.record).digest, "r/i@sha256:aa");
}

}  // namespace
}  // namespace talos::machined
