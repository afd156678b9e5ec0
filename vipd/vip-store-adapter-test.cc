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

}  // namespace
}  // namespace talos::vipd
