#include "networkd/control/link-namer.h"

#include <errno.h>
#include <gtest/gtest.h>

#include <string>

#include "networkd/control/test-network-reconciler.h"

namespace talos::networkd {
namespace {

class LinkNames : public NetworkReconcilerTest {
 protected:
  void predict(unsigned index, kj::StringPtr name) {
    host.predictable.upsert(index, kj::str(name),
                            [](auto& there, auto&& now) { there = kj::mv(now); });
  }
  void wantNone() {
    store.synced = true;
    store.more = [](Wanted& wanted) { wanted.links.clear(); };
  }
  std::string nameOf(unsigned index) {
    for (auto& link : kernel.links()) {
      if (link.index == index) return link.name.cStr();
    }
    return "gone";
  }
  bool reports(kj::StringPtr name) {
    return KJ_ASSERT_NONNULL(store.last).links.find(name) != nullptr;
  }
};

}  // namespace

// Catches: a link that is reported, and configured, under the name that it is about to lose; a
// later link that is not named.
TEST_F(LinkNames, AreGivenBeforeTheStoreKnowsTheLink) {
  wantNone();
  predict(eth0, "enp0s3");
  start();
  EXPECT_EQ(store.published, 1u);
  EXPECT_TRUE(reports("enp0s3"));
  EXPECT_FALSE(reports("eth0"));
  auto later = kernel.plug("eth0");
  predict(later, "enp1s0");
  pass(1 * kj::SECONDS);
  EXPECT_EQ(nameOf(later), "enp1s0");
  EXPECT_TRUE(reports("enp1s0"));
  EXPECT_FALSE(reports("eth0"));
}

// Catches: a config that names a renamed link and is not applied to it.
TEST_F(LinkNames, AConfigIsAppliedToTheNewName) {
  store.synced = true;
  store.more = [](Wanted& wanted) {
    wanted.links[0].name = kj::str("enp0s3");
    wanted.addresses.add(
        WantedAddress{.link = kj::str("enp0s3"), .prefix = prefix("10.5.0.2/24"), .version = 1});
  };
  predict(eth0, "enp0s3");
  start();
  EXPECT_TRUE(has("10.5.0.2/24"));
  EXPECT_EQ(store.network().getProblems().size(), 0u);
  EXPECT_EQ(store.network().getRepairs(), 0u);
}

// Catches: a link in use that loses the name by which it was configured.
TEST_F(LinkNames, WhatIsInUseKeepsItsName) {
  wantNone();
  auto eth1 = kernel.plug("eth1");
  netlink::addAddress(kernel, eth0, prefix("10.5.0.2/24"));
  netlink::setUp(kernel, eth1);
  for (auto& address : kernel.addresses()) {  // addresses that the kernel adds by itself
    if (address.link == eth1) netlink::change(kernel, netlink::DeleteAddress{address});
  }
  predict(eth0, "enp0s3");
  predict(eth1, "enp0s4");
  start();
  netlink::setUp(kernel, eth1, false);
  pass(1 * kj::SECONDS);
  EXPECT_EQ(nameOf(eth0), "eth0");
  EXPECT_EQ(nameOf(eth1), "eth1");
}

// Catches: a name that depends on the order of two cards; a card without a name that blocks the
// others; a refusal that is repeated at each change.
TEST_F(LinkNames, WhatCollidesKeepsTheKernelsNames) {
  wantNone();
  auto eth1 = kernel.plug("eth1"), eth2 = kernel.plug("eth2"), eth3 = kernel.plug("eth3");
  kernel.plug("enp9s0");
  predict(eth0, "enp1s0");
  predict(eth1, "enp1s0");
  predict(eth2, "enp9s0");
  predict(eth3, "enp3s0");
  testing::internal::CaptureStderr();
  start();
  kernel.plug("eth9");
  pass(1 * kj::SECONDS);
  std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(nameOf(eth0), "eth0");
  EXPECT_EQ(nameOf(eth1), "eth1");
  EXPECT_EQ(nameOf(eth2), "eth2");
  EXPECT_EQ(nameOf(eth3), "enp3s0");
  size_t lines = 0;
  for (auto at = log.find("keeps the kernel's name"); at != log.npos;
       at = log.find("keeps the kernel's name", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 3u) << log;
}

// Catches: cards that stay unnamed after a crash, or get other names.
TEST_F(LinkNames, ACrashChangesNothing) {
  wantNone();
  auto eth1 = kernel.plug("eth1");
  predict(eth0, "enp0s3");
  start();
  kill();
  host.predictable.erase(eth0);  // sysfs reports a chosen name
  predict(eth1, "enp0s4");
  kernel.takeChangeCount();
  start();
  EXPECT_EQ(nameOf(eth0), "enp0s3");
  EXPECT_EQ(nameOf(eth1), "enp0s4");
  kill();
  host.predictable.erase(eth1);
  kernel.takeChangeCount();
  start();
  EXPECT_EQ(kernel.takeChangeCount(), 0u);
}

}  // namespace talos::networkd
