#include <set>
#include <string>

#include "apid/metrics/kernel-metrics.h"
#include "common/base/lines.h"
#include "common/text/fields.h"

namespace talos::metrics {
namespace {

constexpr uint64_t kSector = 512;      // sector of diskstats, for every disk
constexpr double kMilliseconds = 1e3;  // in a second
constexpr size_t kMostDevices = 1024;

enum class Unit { kCount, kSectors, kMilliseconds, kNow };
struct DiskRow {
  size_t field;  // after the name, from 0 (Documentation/admin-guide/iostats.rst)
  Unit unit;
  kj::StringPtr name, help;
};
constexpr DiskRow kDiskRows[] = {
    {0, Unit::kCount, "node_disk_reads_completed_total"_kj, "Reads that were completed"_kj},
    {1, Unit::kCount, "node_disk_reads_merged_total"_kj, "Reads that were merged"_kj},
    {2, Unit::kSectors, "node_disk_read_bytes_total"_kj, "Bytes that were read"_kj},
    {3, Unit::kMilliseconds, "node_disk_read_time_seconds_total"_kj, "Seconds of all reads"_kj},
    {4, Unit::kCount, "node_disk_writes_completed_total"_kj, "Writes that were completed"_kj},
    {5, Unit::kCount, "node_disk_writes_merged_total"_kj, "Writes that were merged"_kj},
    {6, Unit::kSectors, "node_disk_written_bytes_total"_kj, "Bytes that were written"_kj},
    {7, Unit::kMilliseconds, "node_disk_write_time_seconds_total"_kj, "Seconds of all writes"_kj},
    {8, Unit::kNow, "node_disk_io_now"_kj, "Requests that are under way"_kj},
    {9, Unit::kMilliseconds, "node_disk_io_time_seconds_total"_kj,
     "Seconds with a request under way"_kj},
    {10, Unit::kMilliseconds, "node_disk_io_time_weighted_seconds_total"_kj,
     "Seconds of all requests"_kj},
};
constexpr size_t kDiskFields = 11;

struct Disk {
  kj::String name;
  uint64_t values[kDiskFields];
};

// Returns true for memory and images, which are devices for the kernel but not for an operator.
bool isLeftOut(FileText name) {
  for (auto prefix : {"ram"_kj, "loop"_kj, "fd"_kj}) {
    if (name.size() > prefix.size() && name.slice(0, prefix.size()) == prefix.asArray()) {
      return true;
    }
  }
  return name.size() == 0;
}

kj::Vector<Disk> disksIn(FileText diskstats) {
  kj::Vector<Disk> disks;
  for (auto line : Lines(diskstats)) {
    Fields fields(line);
    fields.next();  // major and minor number
    fields.next();
    auto name = fields.next();
    if (isLeftOut(name) || disks.size() >= kMostDevices) continue;
    Disk disk{.name = kj::heapString(name), .values = {}};
    bool whole = true;
    for (auto& value : disk.values) {
      auto field = fields.next();
      whole = whole && field.size() > 0;
      value = numberIn<uint64_t>(field);
    }
    if (whole) disks.add(kj::mv(disk));
  }
  return disks;
}

// Returns true for file systems that are always full, or of a container.
bool isFullByNature(kj::StringPtr type) {
  return type == "squashfs" || type == "iso9660" || type == "erofs" || type == "efivarfs";
}
bool isOfContainers(kj::StringPtr path) {
  for (auto prefix : {"/var/lib/kubelet/pods/"_kj, "/run/containerd/"_kj, "/run/netns/"_kj,
                      "/var/lib/containerd/"_kj, "/proc/"_kj, "/sys/"_kj, "/dev/"_kj}) {
    if (path.startsWith(prefix)) return true;
  }
  return false;
}

kj::Vector<rpc::Mount::Reader> filesystemsIn(capnp::List<rpc::Mount>::Reader mounts) {
  kj::Vector<rpc::Mount::Reader> shown;
  std::set<std::string> places;
  for (auto i = mounts.size(); i > 0; --i) {
    auto mount = mounts[i - 1];
    kj::StringPtr path = mount.getMountedOn();
    if (!places.insert(path.cStr()).second || shown.size() >= kMostDevices) continue;
    if (mount.getSize() == 0 || isFullByNature(mount.getType()) || isOfContainers(path)) continue;
    shown.add(mount);
  }
  return shown;
}

}  // namespace

void writeDisks(MetricsText& out, FileText diskstats) {
  auto disks = disksIn(diskstats);
  for (auto& row : kDiskRows) {
    out.family(row.name, row.unit == Unit::kNow ? Type::kGauge : Type::kCounter, row.help);
    for (auto& disk : disks) {
      auto value = disk.values[row.field];
      if (row.unit == Unit::kMilliseconds) {
        out.add({{"device", disk.name}}, static_cast<double>(value) / kMilliseconds);
      } else {
        out.add({{"device", disk.name}}, row.unit == Unit::kSectors ? value * kSector : value);
      }
    }
  }
}

void writeFilesystems(MetricsText& out, capnp::List<rpc::Mount>::Reader mounts) {
  auto shown = filesystemsIn(mounts);
  auto write = [&](kj::StringPtr name, kj::StringPtr help,
                   uint64_t (*value)(rpc::Mount::Reader mount)) {
    out.family(name, Type::kGauge, help);
    for (auto& mount : shown) {
      out.add({{"device", mount.getFilesystem()},
               {"fstype", mount.getType()},
               {"mountpoint", mount.getMountedOn()}},
              value(mount));
    }
  };
  write("node_filesystem_size_bytes", "Size of the file system",
        [](auto mount) { return mount.getSize(); });
  write("node_filesystem_free_bytes", "Free bytes, with those that are reserved for root",
        [](auto mount) { return mount.getFree(); });
  write("node_filesystem_avail_bytes", "Free bytes for everybody",
        [](auto mount) { return mount.getAvailable(); });
  write("node_filesystem_files", "Inodes of the file system",
        [](auto mount) { return mount.getFiles(); });
  write("node_filesystem_files_free", "Free inodes",
        [](auto mount) { return mount.getFilesFree(); });
  write("node_filesystem_readonly", "1 if it is mounted read-only",
        [](auto mount) { return uint64_t{mount.getReadOnly()}; });
}

}  // namespace talos::metrics
