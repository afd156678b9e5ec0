#include "machined/disk/installer/boot-code.h"

#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"

namespace talos::install {
namespace {

constexpr size_t kCodeEnd = 440;  // then: identity of the disk, partition table
constexpr size_t kCoreSectorAt = 0x5c, kDriveCheckAt = 0x66;
// The only block list, in the last bytes of the first sector: begin, length, segment to load to.
constexpr size_t kListBeginAt = 0x1f4, kListLengthAt = 0x1fc;

void put(kj::ArrayPtr<kj::byte> out, size_t at, uint64_t value, unsigned size) {
  for (unsigned i = 0; i < size; ++i) out[at + i] = static_cast<kj::byte>(value >> (8 * i));
}

}  // namespace

kj::Array<kj::byte> bootSector(kj::ArrayPtr<const kj::byte> first,
                               kj::ArrayPtr<const kj::byte> bootImage, uint64_t coreSector) {
  KJ_REQUIRE(first.size() == kBootSector && bootImage.size() == kBootSector);
  auto result = kj::heapArray(first);
  memcpy(result.begin(), bootImage.begin(), kCodeEnd);
  put(result, kCoreSectorAt, coreSector, 8);
  // Two no-operations replace a jump: boot.img then uses the first disk if a BIOS does not properly
  // report the disk that it started.
  put(result, kDriveCheckAt, 0x9090, 2);
  return result;
}

kj::Array<kj::byte> coreImage(kj::ArrayPtr<const kj::byte> image, uint64_t coreSector,
                              uint64_t room) {
  auto sectors = (image.size() + kBootSector - 1) / kBootSector;
  if (image.size() <= kBootSector || sectors * kBootSector > room) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the boot loader has ", image.size(), " bytes, and there is room for ", room));
  }
  auto result = kj::heapArray<kj::byte>(sectors * kBootSector);
  memset(result.begin(), 0, result.size());
  memcpy(result.begin(), image.begin(), image.size());
  put(result, kListBeginAt, coreSector + 1, 8);
  put(result, kListLengthAt, sectors - 1, 2);
  return result;
}

}  // namespace talos::install
