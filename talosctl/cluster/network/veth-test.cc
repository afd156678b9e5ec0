#include "talosctl/cluster/network/veth.h"

#include <gtest/gtest.h>

#include "common/netlink/netlink-model.h"

namespace talos::cluster {
namespace {

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
