#include "vipd/vip-store-adapter.h"

#include <gtest/gtest.h>

namespace talos::vipd {
namespace {

// Catches: a holder whose API server is gone; a cluster that never starts, because no node may hold
// the address before it has an API server; a node that is excluded for ever because its status is
// no longer updated.
TEST(StoreAdapter, WhenTheApiServerKeepsANodeFromHolding) {
  struct Row {
    bool there, ready, ever, watched, keeps;
  } rows[] = {
      {false, false, false, true, false}, {true, false, false, true, false},
      {true, true, true, true, false},    {true, false, true, true, true},
      {true, false, true, false, false},
  };
  for (auto& row : rows) {
    capnp::MallocMessageBuilder message;
    auto spec = message.initRoot<rpc::LocalApiStatusSpec>();
    spec.setReady(row.ready);
    spec.setEverReady(row.ever);
    spec.setMessage("500");
    kj::Maybe<rpc::LocalApiStatusSpec::Reader> api;
    if (row.there) api = spec.asReader();
    auto obstacle = apiObstacle(api, row.watched);
    EXPECT_EQ(obstacle != nullptr, row.keeps) << &row - rows;
    KJ_IF_MAYBE (cause, obstacle) {
      EXPECT_STREQ(cause->cStr(), "kube-apiserver of this node is not ready: 500");
    }
  }
}

// Observes service etcd and passes the seconds in between; returns 'h' where etcd keeps the node
// from holding an address, otherwise '.', for each: "+" healthy, "-" not healthy, "x" does not run,
// "_" a second without an observation.
std::string obstaclesOf(const std::string& observations) {
  EtcdHealth health;
  auto now = kj::origin<kj::TimePoint>();
  std::string result;
  for (char c : observations) {
    now += 1 * kj::SECONDS;
    if (c != '_') health.observe(c != 'x', c == '+', now);
    result += health.obstacle(now) == nullptr ? '.' : 'h';
  }
  return result;
}

// Catches: waiting nodes that leave the election because one check met an election of etcd's
// leader; a node that stays a candidate for ever with an etcd that is not healthy; bad checks that
// extend the tolerance; a member that has not been healthy since its start and counts as healthy.
TEST(StoreAdapter, HowLongAnUnhealthyEtcdIsTolerated) {
  EXPECT_EQ(obstaclesOf("+-____-____+"), "............");
  EXPECT_EQ(obstaclesOf("+-____-_____"), "...........h");
  EXPECT_EQ(obstaclesOf("+-__________+-"), "...........h..");
  EXPECT_EQ(obstaclesOf("--_"), "hhh");
  EXPECT_EQ(obstaclesOf("+x-_+"), ".hhh.");
}

// Catches: a tolerance that ends and is not noticed, because no observation follows.
TEST(StoreAdapter, EndOfTheToleranceIsKnown) {
  EtcdHealth health;
  auto now = kj::origin<kj::TimePoint>();
  health.observe(true, true, now);
  EXPECT_TRUE(health.toleratedUntil(now) == nullptr);
  health.observe(true, false, now);
  EXPECT_TRUE(KJ_ASSERT_NONNULL(health.toleratedUntil(now)) == now + kEtcdTolerance);
  EXPECT_TRUE(health.toleratedUntil(now + kEtcdTolerance) == nullptr);
}

}  // namespace
}  // namespace talos::vipd
