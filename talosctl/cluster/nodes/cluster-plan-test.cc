#include "talosctl/cluster/nodes/cluster-plan.h"

#include <capnp/message.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/error.h"

namespace talos::cluster {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

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

TEST(ClusterPlan, ProcessorsAreANumber) {
  for (double cpus : {-1.0, 0.0, 0.009, 64.5, double(kj::nan())}) {
    auto r = request();
    r.cpus = cpus;
    EXPECT_THAT(refusal(r).cStr(), HasSubstr("--cpus: ")) << cpus;
  }
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

// Catches: another order of the families than everywhere else, a node whose two addresses have
// different numbers, an IPv4 address in a cluster without IPv4.
TEST(ClusterPlan, FamiliesAreThoseOfTheFlags) {
  auto planned = [](bool ipv4, bool ipv6) {
    auto r = request();
    r.containers = true;
    r.ipv4 = ipv4, r.ipv6 = ipv6;
    capnp::MallocMessageBuilder message;
    auto out = message.initRoot<rpc::LocalCluster>();
    plan(r, [](unsigned, unsigned, unsigned) { return true; }, out);
    auto node = out.asReader().getNodes()[1];
    return std::string(kj::str(out.getCidr(), " ", out.getGateway(), " ", node.getAddress(), ", ",
                               out.getCidr6(), " ", out.getGateway6(), " ", node.getAddress6())
                           .cStr());
  };
  EXPECT_EQ(planned(true, false), "10.5.0.0/24 10.5.0.1 10.5.0.3,   ");
  EXPECT_EQ(planned(true, true),
            "10.5.0.0/24 10.5.0.1 10.5.0.3, fd74:616c:a05::/64 fd74:616c:a05::1 fd74:616c:a05::3");
  EXPECT_EQ(planned(false, true), "fd74:616c:a05::/64 fd74:616c:a05::1 fd74:616c:a05::3,   ");
}

// Catches: nodes without any address, a virtual machine that cannot fetch its config.
TEST(ClusterPlan, FamiliesThatCannotBe) {
  auto r = request();
  r.containers = true;
  r.ipv4 = false;
  EXPECT_THAT(refusal(r).cStr(), HasSubstr("--ipv4: the nodes need addresses"));
  r.ipv6 = true;
  EXPECT_EQ(refusal(r), "accepted");
  r.virtualMachines = 1;
  EXPECT_THAT(refusal(r).cStr(), HasSubstr("--ipv4: virtual machines fetch their config with"));
  r.virtualMachines = 0;
  r.containers = false;
  EXPECT_THAT(refusal(r).cStr(), HasSubstr("--ipv4: virtual machines fetch their config with"));
  r.ipv4 = true;
  EXPECT_EQ(refusal(r), "accepted");
}

// Catches: two clusters with the same loopback addresses.
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

// Catches: a comparison of equal networks only, or in one direction only; loopback or IPv6 taken
// for a conflict.
TEST(ClusterPlan, ANetworkOfTheHostIsNotTheClusters) {
  auto conflict = [](kj::StringPtr cidr, kj::StringPtr link, kj::StringPtr address) {
    auto host = kj::arr(HostAddress{kj::str(link), KJ_ASSERT_NONNULL(Prefix::parse(address))});
    auto text = cidrConflict(parseCidr(cidr), host);
    return std::string(text == nullptr ? "none" : KJ_ASSERT_NONNULL(text).cStr());
  };
  EXPECT_EQ(
      conflict("10.5.0.0/24", "eth1", "10.5.0.7/24"),
      "--cidr: 10.5.0.0/24 is in use: this host has 10.5.0.7/24 on eth1; use another, such as "
      "10.6.0.0/24");
  EXPECT_THAT(conflict("10.6.0.0/24", "eth1", "10.6.0.7/24"), HasSubstr("such as 10.7.0.0/24"));
  EXPECT_THAT(conflict("10.5.0.0/24", "eth1", "10.1.2.3/8"), HasSubstr("such as 192.168.6.0/24"));
  EXPECT_THAT(conflict("10.5.0.0/24", "eth1", "10.1.2.3/0"), EndsWith("use another"));
  EXPECT_NE(conflict("10.0.0.0/8", "eth1", "10.5.0.7/32"), "none");
  EXPECT_EQ(conflict("10.5.0.0/24", "eth1", "10.5.1.1/24"), "none");
  EXPECT_EQ(conflict("127.0.0.0/8", "lo", "127.0.0.1/8"), "none");
  EXPECT_EQ(conflict("10.5.0.0/24", "eth1", "fe80::1/64"), "none");
}

// Catches: the wrong nodes made virtual machines, a container with a disk, half a CPU rounded away.
TEST(ClusterPlan, TheLastNodesAreTheVirtualMachines) {
  auto r = request();
  r.containers = true;
  r.virtualMachines = 1;
  r.cpus = 0.5;
  r.image = kj::str("/img");
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<rpc::LocalCluster>();
  plan(r, [](unsigned, unsigned, unsigned) { return true; }, out);
  auto nodes = out.asReader().getNodes();
  EXPECT_TRUE(isContainer(nodes[0]) && isContainer(nodes[1]) && !isContainer(nodes[2]));
  EXPECT_TRUE(hasContainers(out) && hasVirtualMachines(out));
  EXPECT_EQ(nodes[0].getMilliCpus(), 500);
  EXPECT_EQ(nodes[0].getDisk(), 0);
  EXPECT_EQ(nodes[2].getCpus(), 1);
  EXPECT_GT(nodes[2].getDisk(), 0);
  EXPECT_STREQ(out.asReader().getProvisioner().cStr(), "container");
  r.virtualMachines = 4;
  EXPECT_EQ(refusal(r), "--virtual-machines: must be at most the number of nodes, 3");
}

// Catches: two clusters of the same name that use each other's cgroups.
TEST(ClusterPlan, CgroupsAreOfTheFolderToo) {
  EXPECT_EQ(cgroupName("a", "/x/a"), cgroupName("a", "/x/a"));
  EXPECT_NE(cgroupName("a", "/x/a"), cgroupName("a", "/y/a"));
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
               "--cidr: \"10.5.0/24\" is not a valid IPv4 network; use for example 10.5.0.0/24");
  r = request();
  r.masters = 0;
  EXPECT_STREQ(refusal(r).cStr(), "--masters: must be at least 1");
  r = request();
  r.name = kj::str("Demo/..");
  EXPECT_TRUE(refusal(r).startsWith("--name: \"Demo/..\" is not a valid cluster name"));
}

// Catches: an option of QEMU in the value.
TEST(ClusterPlan, AClockThatIsWrong) {
  auto r = request();
  r.clock = kj::str("2020-12-31T23:59:00");
  EXPECT_EQ(refusal(r), "accepted");
  for (auto bad : {"2020-12-31"_kj, "2020-12-31T23:59:0x"_kj, "2020-12-31T23:59:00,driftfix"_kj,
                   "2020-12-31 23:59:00"_kj}) {
    r.clock = kj::str(bad);
    EXPECT_THAT(refusal(r).cStr(), HasSubstr("--clock: ")) << bad.cStr();
  }
}

// Catches: arguments kept as one text, in which no key can be replaced.
TEST(ClusterPlan, ExtraKernelArgumentsAreSplitAtBlanks) {
  auto r = request();
  r.extraKernelArguments = kj::str(" talos.config=metal-iso  panic=5\ttalos.con=1 quiet=x ");
  capnp::MallocMessageBuilder message;
  auto out = message.initRoot<rpc::LocalCluster>();
  plan(r, [](unsigned, unsigned, unsigned) { return true; }, out);
  EXPECT_EQ(kj::strArray(out.asReader().getExtraKernelArguments(), "|"),
            "talos.config=metal-iso|panic=5|talos.con=1|quiet=x");
}

}  // namespace
}  // namespace talos::cluster
