#include "talosctl/cluster/disks/user-disks.h"

#include "common/base/error.h"
#include "common/net/text-values.h"
#include "common/yaml/yaml-codec.h"

namespace talos::cluster {
namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kLeastXfs = 300 * kMiB;  // what mkfs.xfs makes without being forced to
constexpr size_t kMostUserDisks = 8;

[[noreturn]] void refuseUserDisk(kj::StringPtr given, kj::StringPtr why) {
  fail(ErrorKind::kInvalidArgument,
       kj::str("--user-disk ", given, ": ", why, "; for example /var/lib/extra:1GB"));
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

UserDiskWish parseOne(kj::StringPtr given) {
  auto words = parts(given);
  if (words.size() % 2 != 0) refuseUserDisk(given, "each mount point needs a size");
  UserDiskWish disk;
  for (size_t i = 0; i < words.size(); i += 2) {
    if (!words[i].startsWith("/var/") || !config::isCleanPath(words[i])) {
      refuseUserDisk(given, kj::str("\"", words[i], "\" is not a path below /var"));
    }
    auto bytes = config::parseSize(words[i + 1]).orDefault(0);
    if (bytes < kLeastXfs || bytes > (uint64_t{1} << 50)) {
      refuseUserDisk(
          given, kj::str("\"", words[i + 1], "\" is not a valid size; it must be 300MiB to 1PiB"));
    }
    disk.partitions.add(UserDiskWish::Partition{kj::mv(words[i]), kj::mv(words[i + 1]), bytes});
  }
  return disk;
}

}  // namespace

// A MiB for the table at either end, and what rounding each partition takes.
uint64_t UserDiskWish::bytes() const {
  uint64_t sum = 2 * kMiB;
  for (auto& p : partitions) sum += (p.bytes + kMiB - 1) / kMiB * kMiB;
  return sum;
}

kj::Vector<UserDiskWish> parseUserDisks(kj::ArrayPtr<const kj::String> given) {
  if (given.size() > kMostUserDisks) {
    fail(ErrorKind::kInvalidArgument, kj::str("--user-disk: a node has at most ", kMostUserDisks));
  }
  kj::Vector<UserDiskWish> disks;
  for (auto& text : given) disks.add(parseOne(text));
  return disks;
}

talosctl::Patch userDisksPatch(rpc::LocalNode::Reader node,
                               kj::ArrayPtr<const UserDiskWish> disks) {
  char letter = node.getStateDisk() > 0 ? 'c' : 'b';
  kj::Vector<kj::String> list;
  for (auto& disk : disks) {
    kj::Vector<kj::String> partitions;
    for (auto& p : disk.partitions) {
      partitions.add(kj::str("{size: ", codec::jsonString(p.size),
                             ", mountpoint: ", codec::jsonString(p.mountpoint), "}"));
    }
    list.add(kj::str("{device: /dev/vd", letter++, ", partitions: [",
                     kj::strArray(partitions, ", "), "]}"));
  }
  return {kj::str("--user-disk"), kj::str("machine: {disks: [", kj::strArray(list, ", "), "]}\n")};
}

}  // namespace talos::cluster
