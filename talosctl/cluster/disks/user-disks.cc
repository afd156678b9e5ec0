#include "talosctl/cluster/disks/user-disks.h"

#include "common/base/error.h"
#include "common/net/text-values.h"
#include "common/text/foreign-text.h"

namespace talos::cluster {
namespace {

constexpr uint64_t kMiB = 1 << 20;
// Smallest file system that mkfs.xfs makes without force.
constexpr uint64_t kLeastXfs = 300 * kMiB;
constexpr size_t kMostUserDisks = 8;

[[noreturn]] void refuseUserDisk(kj::StringPtr given, kj::StringPtr error) {
  fail(ErrorKind::kInvalidArgument,
       kj::str("--user-disk ", given, ": ", error, "; for example /var/lib/extra:1GB"));
}

kj::Vector<kj::String> parts(kj::StringPtr text) {
  kj::Vector<kj::String> result;
  for (size_t begin = 0, i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] != ':') continue;
    result.add(kj::heapString(text.slice(begin, i)));
    begin = i + 1;
  }
  return result;
}

UserDiskRequest parseOne(kj::StringPtr given) {
  auto fields = parts(given);
  if (fields.size() % 2 != 0) refuseUserDisk(given, "each mount point needs a size");
  UserDiskRequest disk;
  for (size_t i = 0; i < fields.size(); i += 2) {
    if (!fields[i].startsWith("/var/") || !config::isCleanPath(fields[i])) {
      refuseUserDisk(given, kj::str("\"", fields[i], "\" is not a path below /var"));
    }
    auto bytes = config::parseSize(fields[i + 1]).orDefault(0);
    if (bytes < kLeastXfs || bytes > (uint64_t{1} << 50)) {
      refuseUserDisk(
          given, kj::str("\"", fields[i + 1], "\" is not a valid size; it must be 300MiB to 1PiB"));
    }
    disk.partitions.add(UserDiskRequest::Partition{
        .mountpoint = kj::mv(fields[i]), .size = kj::mv(fields[i + 1]), .bytes = bytes});
  }
  return disk;
}

}  // namespace

// Adds a MiB for the table at either end, and the loss by rounding each partition.
uint64_t UserDiskRequest::bytes() const {
  uint64_t sum = 2 * kMiB;
  for (auto& p : partitions) sum += (p.bytes + kMiB - 1) / kMiB * kMiB;
  return sum;
}

kj::Vector<UserDiskRequest> parseUserDisks(kj::ArrayPtr<const kj::String> given) {
  if (given.size() > kMostUserDisks) {
    fail(ErrorKind::kInvalidArgument, kj::str("--user-disk: a node has at most ", kMostUserDisks));
  }
  kj::Vector<UserDiskRequest> disks;
  for (auto& text : given) disks.add(parseOne(text));
  return disks;
}

talosctl::Patch userDisksPatch(rpc::LocalNode::Reader node,
                               kj::ArrayPtr<const UserDiskRequest> disks) {
  char letter = node.getStateDisk() > 0 ? 'c' : 'b';
  kj::Vector<kj::String> list;
  for (auto& disk : disks) {
    kj::Vector<kj::String> partitions;
    for (auto& p : disk.partitions) {
      partitions.add(
          kj::str("{size: ", jsonString(p.size), ", mountpoint: ", jsonString(p.mountpoint), "}"));
    }
    list.add(kj::str("{device: /dev/vd", letter++, ", partitions: [",
                     kj::strArray(partitions, ", "), "]}"));
  }
  return {kj::str("--user-disk"), kj::str("machine: {disks: [", kj::strArray(list, ", "), "]}\n")};
}

}  // namespace talos::cluster
