// link: machined-parse
// An archive that somebody says is an installer image: any bytes. What is found lies in it.
#include <kj/debug.h>
#include <string.h>

#include "machined/parse/image-archive.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  if (size < 1) return 0;
  auto bytes = kj::heapArray<kj::byte>(kj::arrayPtr(data + 1, size - 1));
  if (data[0] & 1) {  // checksums that fit, or the fuzzer would have to guess them
    for (size_t at = 0; at + 512 <= bytes.size(); at += 512) {
      if (memcmp(bytes.begin() + at + 257, "ustar", 5) != 0) continue;
      unsigned sum = 8 * ' ';
      for (size_t i = 0; i < 512; ++i) sum += i < 148 || i >= 156 ? bytes[at + i] : 0;
      for (int i = 5; i >= 0; --i, sum /= 8) bytes[at + 148 + i] = kj::byte('0' + sum % 8);
      bytes[at + 154] = 0;
      bytes[at + 155] = ' ';
    }
  }
  unsigned reads = 0;
  bool within = true;  // what is thrown inside would count as a refusal
  kj::Vector<machined::ImagePart> parts;
  auto refused = kj::runCatchingExceptions([&]() {
    parts = parse::findImageParts(bytes.size(), [&](uint64_t offset, size_t wanted) {
      within = within && wanted <= machined::kMostSuperblockBytes &&
               ++reads <= machined::kMostArchiveReads;
      auto begin = kj::min(offset, bytes.size());
      return kj::heapArray<const kj::byte>(
          bytes.slice(begin, begin + kj::min(wanted, bytes.size() - begin)));
    });
  });
  KJ_ASSERT(within, "the promise of image-archive.h");
  if (refused != nullptr) return 0;
  KJ_ASSERT(parts.size() == kj::size(machined::kImageFiles));
  for (auto& part : parts) KJ_ASSERT(part.offset < bytes.size() + 512);
  return 0;
}
