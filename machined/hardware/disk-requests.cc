#include "machined/hardware/disk-requests.h"

#include <errno.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <limits.h>
#include <linux/nvme_ioctl.h>
#include <scsi/sg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "common/base/error.h"
#include "machined/disk/devices/block-devices.h"
#include "machined/hardware/attributes.h"
#include "machined/hardware/disk-health.h"

namespace talos::machined {
namespace {

constexpr unsigned kAnswerMs = 10'000;

constexpr kj::byte kGetLogPage = 0x02;
constexpr uint32_t kHealthLog = 0x02, kAllNamespaces = 0xffffffff;

constexpr kj::byte kAtaPassThrough16 = 0x85, kNoData = 3 << 1, kCheckCondition = 1 << 5;
constexpr kj::byte kSmart = 0xb0, kReturnStatus = 0xda, kSmartMiddle = 0x4f, kSmartHigh = 0xc2;
constexpr size_t kSenseBytes = 64;

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
    auto sense = kj::heapArray<kj::byte>(kSenseBytes);
    memset(sense.begin(), 0, sense.size());
    unsigned char command[16] = {kAtaPassThrough16, kNoData, kCheckCondition};
    command[4] = kReturnStatus;
    command[10] = kSmartMiddle;
    command[12] = kSmartHigh;
    command[14] = kSmart;
    sg_io_hdr_t request = {};
    request.interface_id = 'S';
    request.dxfer_direction = SG_DXFER_NONE;
    request.cmdp = command;
    request.cmd_len = sizeof(command);
    request.sbp = sense.begin();
    request.mx_sb_len = kSenseBytes;
    request.timeout = kAnswerMs;
    if (ioctl(fd.get(), SG_IO, &request) < 0) refuse(disk, kWhat, strerror(errno));
    if (request.sb_len_wr == 0) {
      refuse(disk, kWhat, kj::str("no registers; host status ", request.host_status));
    }
    return kj::heapArray(sense.slice(0, kj::min(kSenseBytes, size_t(request.sb_len_wr))));
  }
};

}  // namespace

namespace {

// Others that translate for disks of SATA call them "ATA", too (SAT-3): RAID controllers, bridges
// of USB. Below libata there is the port: /sys/devices/…/ata3/host2/target2:0:0/2:0:0:0
bool isOfLibata(kj::StringPtr sys, kj::StringPtr disk) {
  char resolved[PATH_MAX];
  auto link = kj::str(sys, "/class/block/", disk, "/device");
  if (realpath(link.cStr(), resolved) == nullptr) return false;  // it is gone
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

kj::Own<DiskRequests> requestsToDisks() {
  return kj::refcounted<RealDiskRequests>();
}

}  // namespace talos::machined
