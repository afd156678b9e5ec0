#include "machined/disk/installer/kernel-image.h"

#include <string.h>

#include "common/base/error.h"

namespace talos::install {
namespace {

// Offsets in the file, and the units of what stands there.
constexpr size_t kSetupSectors = 0x1f1, kSystemSize = 0x1f4, kMagic = 0x202, kLeastHead = 0x206;
constexpr uint64_t kSector = 512, kParagraph = 16;
constexpr uint64_t kUsualSetupSectors = 4;  // where 0 is said

}  // namespace

void checkKernel(kj::ArrayPtr<const kj::byte> head, uint64_t size) {
  if (head.size() < kLeastHead || memcmp(head.begin() + kMagic, "HdrS", 4) != 0) {
    fail(ErrorKind::kInvalidArgument, "vmlinuz is not a kernel (a bzImage for x86-64)");
  }
  uint64_t setup = head[kSetupSectors] == 0 ? kUsualSetupSectors : head[kSetupSectors];
  uint64_t system = 0;
  for (int i = 3; i >= 0; --i) system = system << 8 | head[kSystemSize + static_cast<size_t>(i)];
  auto whole = (1 + setup) * kSector + system * kParagraph;
  if (size < whole) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("vmlinuz is cut off: it has ", size, " bytes, and its header says ", whole));
  }
}

}  // namespace talos::install
