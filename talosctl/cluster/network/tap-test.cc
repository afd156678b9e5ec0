#include "talosctl/cluster/network/tap.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/netlink/netlink.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-namespace.h"

namespace talos::cluster {
namespace {

// Catches: a tap device that outlives its owner, or that is another link than the requested one.
TEST(Tap, LivesAsLongAsItsDescriptor) {
  inNamespace([] {
    auto kernel = netlink::openKernel();
    unsigned bridge = netlink::addLink(*kernel, "br-test", netlink::Bridge{});
    {
      auto tap = makeTap("tap-test");
      unsigned index = netlink::indexOf(*kernel, "tap-test");
      netlink::setMaster(*kernel, index, bridge);
      netlink::setUp(*kernel, index);
      EXPECT_EQ(KJ_ASSERT_NONNULL(netlink::findLink(*kernel, "tap-test")).master, bridge);
      auto again = kj::runCatchingExceptions([] { makeTap("tap-test"); });
      EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(again)), ErrorKind::kFailedPrecondition);
    }
    EXPECT_TRUE(netlink::findLink(*kernel, "tap-test") == nullptr);
  });
}

}  // namespace
}  // namespace talos::cluster
