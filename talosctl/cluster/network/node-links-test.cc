#include "talosctl/cluster/network/node-links.h"

#include <gtest/gtest.h>

#include "common/base/error.h"
#include "common/netlink/model/netlink-model.h"
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

// A kernel whose links disappear after they were read.
class FleetingKernel final : public netlink::ModelKernel {
 public:
  using ModelKernel::ModelKernel;
  bool fleeting = false;

  kj::Vector<netlink::Link> links() override {
    auto all = ModelKernel::links();
    if (fleeting) {
      for (auto& link : all) {
        netlink::Change change = netlink::DeleteLink{.index = link.index};
        apply(kj::arrayPtr(&change, 1));
      }
    }
    return all;
  }
};

}  // namespace

// Catches: a node that cannot be started again because the kernel has just removed the link of the
// previous run.
TEST(Veth, OneThatGoesBetweenTheLookAndTheRemovalIsRemoved) {
  kj::Vector<netlink::Link> links;
  FleetingKernel kernel(links, {}, {}, false);
  auto has = [&] { return netlink::findLink(kernel, "node0") != nullptr; };
  removeVeth(kernel, "node0");
  netlink::addLink(kernel, "node0", netlink::Dummy());
  removeVeth(kernel, "node0");
  EXPECT_FALSE(has());
  netlink::addLink(kernel, "node0", netlink::Dummy());
  kernel.fleeting = true;
  EXPECT_NO_THROW(removeVeth(kernel, "node0"));
  EXPECT_FALSE(has());
}

}  // namespace talos::cluster
