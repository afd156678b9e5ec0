#include "talosctl/views/resource-view.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::talosctl {
namespace {

// Catches: a node whose watch names resources without an end, all of which the client keeps; a
// limit that counts resources that have been removed.
TEST(WatchViews, WhatANodeMakesTheClientKeepIsBounded) {
  WatchView view;
  size_t shown = 0;
  auto padding = kj::str(kj::repeat('x', 1u << 20));
  auto change = [&](rpc::Change::Event event, unsigned number) {
    capnp::MallocMessageBuilder message;
    auto change = message.initRoot<rpc::Change>();
    change.setEvent(event);
    change.initResource().initMetadata().setId(kj::str(padding, number));
    return kj::runCatchingExceptions([&] { view.change(change, [&](auto, auto) { ++shown; }); });
  };
  constexpr unsigned kMost = kMostWatchedBytes >> 20;
  for (unsigned i = 0; i < 3 * kMost; ++i) {
    EXPECT_TRUE(change(rpc::Change::Event::CREATED, i) == nullptr);
    EXPECT_TRUE(change(rpc::Change::Event::UPDATED, i) == nullptr);
    EXPECT_TRUE(change(rpc::Change::Event::DESTROYED, i) == nullptr);
  }
  EXPECT_EQ(shown, 9 * kMost);
  unsigned refused = 0;
  for (unsigned i = 0; i < kMost + 8; ++i) {
    auto failure = change(rpc::Change::Event::CREATED, i);
    KJ_IF_MAYBE (e, failure) {
      EXPECT_EQ(kindOf(*e), ErrorKind::kResourceExhausted);
      ++refused;
    }
  }
  EXPECT_GE(refused, 8u);
  EXPECT_LE(refused, 10u);
}

}  // namespace
}  // namespace talos::talosctl
