#include "talosctl/cluster/plan.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace talos::cluster {
namespace {

Request request() {
  Request r;
  r.name = kj::str("demo");
  r.masters = 2;
  r.workers = 1;
  r.cidr = kj::str("10.5.0.0/24");
  r.accelerator = kj::str("tcg");
  r.kernel = kj::str("/k");
  r.initramfs = kj::str("/i");
  return r;
}

kj::String refusal(const Request& r) {
  capnp::MallocMessageBuilder message;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&] {
                 plan(
                     r, [](unsigned, unsigned, unsigned) { return true; },
                     message.initRoot<rpc::LocalCluster>());
               })) {
    return messageOf(*e);
  }
  return kj::str("accepted");
}

TEST(ClusterPlan, NamesAndAddressesAreAsDocumented) {
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<rpc::LocalCluster>();
  plan(request(), [](unsigned, unsigned, unsigned) { return true; }, out);
  ASSERT_EQ(out.getNodes().size(), 3);
  EXPECT_STREQ(out.getGateway().cStr(), "10.5.0.1");
  EXPECT_STREQ(out.getNodes()[0].getName().cStr(), "demo-master-1");
  EXPECT_STREQ(out.getNodes()[0].getAddress().cStr(), "10.5.0.2");
  EXPECT_STREQ(out.getNodes()[1].getName().cStr(), "demo-master-2");
  EXPECT_STREQ(out.getNodes()[2].getName().cStr(), "demo-worker-1");
  EXPECT_STREQ(out.getNodes()[2].getAddress().cStr(), "10.5.0.4");
  EXPECT_STREQ(out.getNodes()[2].getType().cStr(), "join");
  EXPECT_EQ(kj::str(out.asReader().getNodes()[0].getMac()).size(), 17)
      << "QEMU wants two digits each";
  EXPECT_TRUE(out.asReader().getNodes()[0].getEndpoint().startsWith("127."));
}

// Would catch: two clusters that are given the same loopback addresses.
TEST(ClusterPlan, TakenLoopbackNetworksAreSkipped) {
  capnp::MallocMessageBuilder one, two;
  unsigned a = 0, b = 0;
  plan(
      request(),
      [&](unsigned x, unsigned y, unsigned) {
        a = x;
        b = y;
        return true;
      },
      one.initRoot<rpc::LocalCluster>());
  plan(
      request(), [&](unsigned x, unsigned y, unsigned) { return x != a || y != b; },
      two.initRoot<rpc::LocalCluster>());
  EXPECT_NE(one.getRoot<rpc::LocalCluster>().getNodes()[0].getEndpoint(),
            two.getRoot<rpc::LocalCluster>().getNodes()[0].getEndpoint());
}

TEST(ClusterPlan, WrongFlagsAreNamed) {
  auto r = request();
  r.cidr = kj::str("10.5.0.7/24");
  EXPECT_STREQ(refusal(r).cStr(),
               "--cidr: \"10.5.0.7/24\" has host bits set; did you mean 10.5.0.0/24?");
  r.cidr = kj::str("10.5.0.0/29");
  r.masters = 5;
  r.workers = 1;
  EXPECT_STREQ(refusal(r).cStr(), "--cidr: 10.5.0.0/29 has room for 5 nodes, not 6");
  r.cidr = kj::str("10.5.0/24");
  EXPECT_STREQ(refusal(r).cStr(),
               "--cidr: \"10.5.0/24\" is not an IPv4 network such as 10.5.0.0/24");
  r = request();
  r.masters = 0;
  EXPECT_STREQ(refusal(r).cStr(), "--masters: at least 1 is needed");
  r = request();
  r.name = kj::str("Demo/..");
  EXPECT_TRUE(refusal(r).startsWith("--name: \"Demo/..\" is not a cluster name"));
}

}  // namespace
}  // namespace talos::cluster
