// Settings of a driver against the real kernel: those of a pair of links in a network namespace.
// Needs root.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kj/debug.h>

#include <algorithm>

#include "common/base/error.h"
#include "common/netlink/netlink-ethtool.h"
#include "common/netlink/test-netlink.h"
#include "common/testing/test-namespace.h"

namespace talos::netlink {
namespace {

constexpr auto kScatter = "tx-scatter-gather";

const EthernetFeature* featureOf(const EthernetState& state, const char* name) {
  auto found = std::find_if(state.features.begin(), state.features.end(),
                            [&](auto& feature) { return feature.name == name; });
  return found == state.features.end() ? nullptr : &*found;
}

// Catches: messages that the kernel refuses or understands differently; a feature that is read as
// fixed, or whose change is not seen; a group without which a driver cannot be read.
TEST(EthtoolKernel, ADriverHasWhatWasSet) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned link = addVeth(*kernel, "left", "right");
    auto ethtool = openEthtool();
    auto state = ethtool->read(link);
    EXPECT_FALSE(state.wakeOnLan.has_value());
    EXPECT_GT(state.features.size(), 30u);
    auto loopback = featureOf(state, "loopback");
    EXPECT_TRUE(loopback != nullptr && loopback->fixed && !loopback->active);
    for (bool on : {false, true}) {
      EXPECT_TRUE(ethtool->set({.index = link,
                                .group = EthernetGroup::kFeatures,
                                .values = {{kScatter, on}}}) == nullptr);
      auto after = ethtool->read(link);
      auto feature = featureOf(after, kScatter);
      ASSERT_TRUE(feature != nullptr);
      EXPECT_EQ(*feature, (EthernetFeature{kScatter, on, on, false}));
    }
  });
}

// Catches: a refusal that counts as done, or that loses the kernel's reason; a link that is gone
// and has settings.
TEST(EthtoolKernel, RefusalsHaveTheKernelsReason) {
  inNamespace([] {
    auto kernel = openKernel();
    unsigned link = addVeth(*kernel, "left", "right");
    auto ethtool = openEthtool();
    auto refusal =
        ethtool->set({.index = link, .group = EthernetGroup::kWakeOnLan, .values = {{"magic"}}});
    EXPECT_THAT(KJ_ASSERT_NONNULL(refusal).cStr(), ::testing::HasSubstr("not supported"));
    EXPECT_TRUE(ethtool->set({.index = link,
                              .group = EthernetGroup::kFeatures,
                              .values = {{"no-such-feature", 1}}}) != nullptr);
    change(*kernel, DeleteLink{link});
    auto gone = kj::runCatchingExceptions([&] { ethtool->read(link); });
    EXPECT_EQ(kindOf(KJ_ASSERT_NONNULL(gone)), ErrorKind::kFailedPrecondition);
  });
}

}  // namespace
}  // namespace talos::netlink
