#include "machined/disk/volumes/xfs-growth.h"

#include <fcntl.h>
#include <kj/debug.h>
#include <kj/io.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

namespace talos::machined {
namespace {

// linux/xfs_fs.h is not among the headers of the C library; the layout is the kernel's interface.
struct XfsGeometryV1 {
  uint32_t blocksize, rtextsize, agblocks, agcount, logblocks, sectsize, inodesize, imaxpct;
  uint64_t datablocks, rtblocks, rtextents, logstart;
  unsigned char uuid[16];
  uint32_t sunit, swidth;
  int32_t version;
  uint32_t flags, logsectsize, rtsectsize, dirblocksize;
};
struct XfsGrow {
  uint64_t newblocks;
  uint32_t imaxpct;
};
constexpr unsigned long kXfsGeometry = _IOR('X', 100, XfsGeometryV1),
                        kXfsGrow = _IOW('X', 110, XfsGrow);

}  // namespace

void growXfs(int mount, uint64_t bytes) {
  int raw;  // a mount's descriptor is good for paths only
  KJ_SYSCALL(raw = openat(mount, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  kj::AutoCloseFd top(raw);
  XfsGeometryV1 now = {};
  KJ_SYSCALL(ioctl(top, kXfsGeometry, &now));
  uint64_t blocks = bytes / now.blocksize;
  // The kernel does not make a last part of less than 64 blocks.
  if (blocks < now.datablocks + kWorthGrowing / now.blocksize) return;
  XfsGrow wanted = {blocks, now.imaxpct};
  KJ_SYSCALL(ioctl(top, kXfsGrow, &wanted));
}

uint64_t deviceSize(kj::StringPtr node) {
  int raw;
  KJ_SYSCALL(raw = open(node.cStr(), O_RDONLY | O_CLOEXEC), node);
  kj::AutoCloseFd fd(raw);
  uint64_t bytes = 0;
  KJ_SYSCALL(ioctl(fd, BLKGETSIZE64, &bytes), node);
  return bytes;
}

}  // namespace talos::machined
