#include "vipd/vip-store-adapter.h"

#include <gtest/gtest.h>

#include <string>

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

// Catches: an address that the cloud does not assign, or with no token; an address that waits for a
// cloud without having one.
TEST(StoreAdapter, TheProviderOfAnAddress) {
  capnp::MallocMessageBuilder specMessage, credentialsMessage;
  auto spec = specMessage.initRoot<rpc::VipSpecSpec>();
  spec.setLinkName("eth0");
  auto credentials = credentialsMessage.initRoot<rpc::VipCredentialsSpec>();
  credentials.setApiToken("t");
  auto shown = [&](kj::Maybe<rpc::VipCredentialsSpec::Reader> given) -> std::string {
    auto vip = wantedVip(Ip::require("10.0.0.9"), spec, given);
    return kj::str(vip.address, " ", vip.link, " ", vip.ttl / kj::SECONDS, " ", vip.hcloud, " ",
                   vip.hcloudToken)
        .cStr();
  };
  EXPECT_EQ(shown(nullptr), "10.0.0.9 eth0 2 false ");
  spec.setProvider("hcloud");
  spec.setLeaseTtlMs(5000);
  EXPECT_EQ(shown(nullptr), "10.0.0.9 eth0 5 true ");
  EXPECT_EQ(shown(credentials.asReader()), "10.0.0.9 eth0 5 true t");
}

}  // namespace
}  // namespace talos::vipd
