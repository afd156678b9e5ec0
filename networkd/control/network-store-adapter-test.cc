#include "networkd/control/network-store-adapter.h"

#include <gtest/gtest.h>

#include "common/testing/printing.h"

namespace talos::networkd {
namespace {

// Catches: a machine with more routes than machined accepts, whose addresses are not reported
// because the routes before them are refused.
TEST(StoreAdapter, MoreThanMachinedTakesIsCutOff) {
  StoreClient::Wanted wanted;
  for (auto id : {"a", "b", "c"}) {
    wanted.insert(kj::str(id), kj::heap<capnp::MallocMessageBuilder>());
  }
  EXPECT_EQ(cutTo(wanted, 3), 0u);
  EXPECT_EQ(wanted.size(), 3u);
  EXPECT_EQ(cutTo(wanted, 2), 1u);
  EXPECT_TRUE(wanted.find("c") == nullptr);
  EXPECT_EQ(wanted.size(), 2u);
}

}  // namespace
}  // namespace talos::networkd
