#include "machined/hardware/disk-requests.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <limits.h>
#include <linux/nvme_ioctl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/base/error.h"
#include "machined/disk/devices/block-devices.h"
#include "machined/hardware/disk-health.h"
#include "machined/hardware/readings.h"

namespace talos::machined {
namespace {

constexpr unsigned kAnswerMs = 10'000;

constexpr kj::byte kGetLogPage = 0x02;
constexpr uint32_t kHealthLog = 0x02, kAllNamespaces = 0xffffffff;

kj::AutoCloseFd openDisk(kj::StringPtr disk) {
  auto node = kj::str("/dev/", disk);
  int fd = open(node.cStr(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) fail(ErrorKind::kUnavailable, kj::str("cannot open ", node, ": ", strerror(errno)));
  return kj::AutoCloseFd(fd);
}

[[noreturn]] void refuse(kj::StringPtr disk, kj::StringPtr what, kj::StringPtr error) {
  fail(ErrorKind::kUnavailable, kj::str("/dev/", disk, ": ", what, ": ", error));
}

class RealDiskRequests final : public DiskRequests {
 public:
  explicit RealDiskRequests(AtaStatus status) : status(kj::mv(status)) {}

  kj::Array<kj::byte> nvmeHealth(kj::StringPtr disk) const override {
    constexpr auto kWhat = "cannot read its health"_kj;
    auto fd = openDisk(disk);
    auto page = kj::heapArray<kj::byte>(kNvmeHealthBytes);
    memset(page.begin(), 0, page.size());
    struct nvme_admin_cmd command = {};
    command.opcode = kGetLogPage;
    command.nsid = kAllNamespaces;
    command.addr = reinterpret_cast<uintptr_t>(page.begin());
    command.data_len = kNvmeHealthBytes;
    command.cdw10 = kHealthLog | (kNvmeHealthBytes / 4 - 1) << 16;  // double words, minus one
    command.timeout_ms = kAnswerMs;
    int status = ioctl(fd.get(), NVME_IOCTL_ADMIN_CMD, &command);
    if (status < 0) refuse(disk, kWhat, strerror(errno));
    if (status > 0) refuse(disk, kWhat, kj::str("status ", kj::hex(unsigned(status))));
    return page;
  }

  kj::Array<kj::byte> ataStatus(kj::StringPtr disk) const override {
    constexpr auto kWhat = "cannot read its SMART status"_kj;
    auto fd = openDisk(disk);
    auto answer = status(fd.get());
    if (answer.error != 0) refuse(disk, kWhat, strerror(answer.error));
    if (answer.senseSize == 0) {
      refuse(disk, kWhat, kj::str("no registers; host status ", answer.hostStatus));
    }
    return kj::heapArray<kj::byte>(answer.sense, kj::min(helper::kMostSense, answer.senseSize));
  }

 private:
  AtaStatus status;
};

// Other translators for SATA disks report "ATA", too (SAT-3): RAID controllers, USB bridges. Only
// disks of libata are below a port: /sys/devices/…/ata3/host2/target2:0:0/2:0:0:0
bool isOfLibata(kj::StringPtr sys, kj::StringPtr disk) {
  char resolved[PATH_MAX];
  auto link = kj::str(sys, "/class/block/", disk, "/device");
  if (realpath(link.cStr(), resolved) == nullptr) return false;  // the disk is gone
  for (kj::StringPtr rest = resolved; rest.size() > 0;) {
    auto end = rest.slice(1).findFirst('/').orDefault(rest.size() - 1) + 1;
    auto part = rest.slice(1, end);
    if (part.size() > 3 && part.startsWith("ata"_kj) && part[3] >= '0' && part[3] <= '9')
      return true;
    rest = rest.slice(end);
  }
  return false;
}

}  // namespace

kj::Vector<DiskToAsk> disksToAsk(kj::StringPtr sys) {
  kj::Vector<DiskToAsk> disks;
  for (auto& device : readBlockDevices(sys)) {
    if (!device.whole || device.cdrom) continue;
    auto vendor = attributeText(kj::str(sys, "/class/block/", device.name, "/device"), "vendor");
    if (device.name.startsWith("nvme")) {
      disks.add(DiskToAsk{kj::str(device.name), DiskToAsk::Protocol::kNvme});
    } else if (device.name.startsWith("sd") && vendor == "ATA" && isOfLibata(sys, device.name)) {
      disks.add(DiskToAsk{kj::str(device.name), DiskToAsk::Protocol::kAta});
    }
  }
  return disks;
}

kj::Own<DiskRequests> requestsToDisks(AtaStatus ataStatus) {
  return kj::refcounted<RealDiskRequests>(kj::mv(ataStatus));
}

}  // namespace talos::machined
