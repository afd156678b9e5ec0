#include "machined/platforms/platform.h"

#include <gtest/gtest.h>

namespace talos::platforms {
namespace {

struct Machine {
  kj::StringPtr vendor = {}, product = {}, serial = {}, uuid = {}, chassisTag = {};
};
std::string recognizedAs(const Machine& machine) {
  Firmware firmware{.vendor = kj::str(machine.vendor),
                    .product = kj::str(machine.product),
                    .serial = kj::str(machine.serial),
                    .uuid = kj::str(machine.uuid),
                    .chassisTag = kj::str(machine.chassisTag)};
  KJ_IF_MAYBE (platform, recognized(firmware)) return platform->name.cStr();
  return "";
}

// Catches: plain QEMU or Hyper-V taken for a cloud, the octets of a UUID in the old order.
TEST(Platforms, ByFirmware) {
  EXPECT_EQ(recognizedAs({.vendor = "QEMU", .product = "Standard PC (Q35 + ICH9, 2009)"}), "");
  EXPECT_EQ(recognizedAs({.vendor = "Microsoft Corporation", .product = "Virtual Machine"}), "");
  EXPECT_EQ(recognizedAs({.vendor = "Microsoft Corporation",
                          .product = "Virtual Machine",
                          .chassisTag = "7783-7084-3265-9085-8269-3286-77"}),
            "azure");
  EXPECT_EQ(recognizedAs({.vendor = "Amazon EC2", .product = "t3.small"}), "aws");
  EXPECT_EQ(recognizedAs({.vendor = "Xen", .uuid = "ec2a0000-1111-2222-3333-444455556666"}), "aws");
  EXPECT_EQ(recognizedAs({.vendor = "Xen", .uuid = "45e12aec-1111-2222-3333-444455556666"}), "aws");
  EXPECT_EQ(recognizedAs({.vendor = "Xen", .uuid = "45e13aec-1111-2222-3333-444455556666"}), "");
  EXPECT_EQ(recognizedAs({.vendor = "Google", .product = "Google Compute Engine"}), "gcp");
  EXPECT_EQ(recognizedAs({.product = "OpenStack Nova"}), "openstack");
  EXPECT_EQ(recognizedAs({.chassisTag = "HUAWEICLOUD"}), "openstack");
  EXPECT_EQ(recognizedAs({.vendor = "Hetzner", .product = "vServer"}), "hcloud");
  EXPECT_EQ(recognizedAs({.vendor = "DigitalOcean"}), "digital-ocean");
  EXPECT_EQ(recognizedAs({.vendor = "Vultr"}), "vultr");
  EXPECT_EQ(recognizedAs({.vendor = "Scaleway"}), "scaleway");
  EXPECT_EQ(recognizedAs({.chassisTag = "OracleCloud.com"}), "oracle");
  EXPECT_EQ(recognizedAs({.vendor = "UpCloud"}), "upcloud");
  EXPECT_EQ(recognizedAs({.product = "Exoscale Compute Platform"}), "exoscale");
  EXPECT_EQ(recognizedAs({.vendor = "Akamai"}), "akamai");
  EXPECT_EQ(recognizedAs({.product = "CloudStack KVM Hypervisor"}), "cloudstack");
  EXPECT_EQ(recognizedAs({.vendor = "VMware, Inc."}), "vmware");
  EXPECT_EQ(recognizedAs({.vendor = "QEMU", .serial = "ds=nocloud;s=http://x/"}), "nocloud");
}

// Catches: a machine with the marks of two platforms given to either of them.
TEST(Platforms, TwoAtOnceAreNone) {
  EXPECT_EQ(recognizedAs({.vendor = "Hetzner", .serial = "ds=nocloud;s=http://x/"}), "");
}

// Catches: a platform whose metadata service pods can reach, because its address is another one.
TEST(Platforms, PodsAreKeptFromTheServer) {
  for (auto* platform : all()) {
    auto server = platform->server;
    for (auto start : {"http://169."_kj, "http://168."_kj}) {
      if (!server.startsWith(start)) continue;
      bool among = false;
      for (auto address : platform->metadata) {
        among = among || server == kj::str("http://", address);
      }
      EXPECT_TRUE(among) << platform->name.cStr();
    }
    if (platform->report == nullptr) continue;
    auto& addresses = platform->metadata;
    EXPECT_EQ(platform->report->server, kj::str("http://", addresses[addresses.size() - 1]));
  }
}

// Catches: a name in the table twice, a request without a place.
TEST(Platforms, Table) {
  for (auto* platform : all()) {
    EXPECT_EQ(&KJ_ASSERT_NONNULL(called(platform->name)), platform);
    for (auto& request : platform->facts) {
      EXPECT_TRUE(request.target.size() > 0 && request.name.size() > 0) << platform->name.cStr();
    }
  }
  EXPECT_EQ(&KJ_ASSERT_NONNULL(called("packet")), &kEquinixMetal);
  EXPECT_TRUE(called("AWS") == nullptr);
  EXPECT_TRUE(called("metal") == nullptr);
}

// Catches: a mistaken name without a message, or with the wrong suggestions; a refusal of the names
// without a provider.
TEST(Platforms, NameProblem) {
  for (auto name : {"metal"_kj, "container"_kj, "aws"_kj, "packet"_kj}) {
    EXPECT_TRUE(nameProblem(name) == nullptr) << name.cStr();
  }
  for (auto name : {"hcoud"_kj, "AWS"_kj, ""_kj}) {
    auto problem = nameProblem(name).orDefault(kj::str());
    EXPECT_TRUE(problem.startsWith(
        kj::str("talos.platform=", name, " is not a platform; use one of metal, akamai, aws, ")))
        << problem.cStr();
  }
}

}  // namespace
}  // namespace talos::platforms
