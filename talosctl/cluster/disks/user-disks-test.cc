#include "talosctl/cluster/disks/user-disks.h"

#include <capnp/message.h>
#include <gtest/gtest.h>

namespace talos::cluster {
namespace {

// Catches: a disk that is too small for its partitions, a config that names another device than the
// machine's.
TEST(UserDisks, DiskAndConfigAgree) {
  auto given = kj::arr(kj::str("/var/lib/a:1GB:/var/lib/b:300MiB"), kj::str("/var/c:1TB"));
  auto disks = parseUserDisks(given);
  ASSERT_EQ(disks.size(), 2u);
  EXPECT_EQ(disks[0].bytes(), uint64_t{954 + 300 + 2} << 20);
  EXPECT_EQ(disks[1].partitions[0].bytes, 1'000'000'000'000u);
  capnp::MallocMessageBuilder message;
  auto node = message.initRoot<rpc::LocalNode>();
  EXPECT_EQ(userDisksPatch(node, disks).text,
            "machine: {disks: [{device: /dev/vdb, partitions: [{size: \"1GB\", mountpoint: "
            "\"/var/lib/a\"}, {size: \"300MiB\", mountpoint: \"/var/lib/b\"}]}, {device: /dev/vdc, "
            "partitions: [{size: \"1TB\", mountpoint: \"/var/c\"}]}]}\n");
  node.setStateDisk(1);
  EXPECT_TRUE(userDisksPatch(node, disks).text.startsWith("machine: {disks: [{device: /dev/vdc, "));
}

}  // namespace
}  // namespace talos::cluster
