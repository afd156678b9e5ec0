// link: machined-confined-parser
// Any bytes, as the archive of an installer image. Parts that are found lie within the archive.
#include <kj/debug.h>

#include "machined/confined/parser/image-archive.h"
#include "tests/fuzz/images/tar-sums.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  if (size < 1) return 0;
  auto bytes = kj::heapArray<kj::byte>(kj::arrayPtr(data + 1, size - 1));
  if (data[0] & 1) fuzz::fitChecksums(bytes, true);
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
  auto needed = kj::size(machined::kImageFiles);
  KJ_ASSERT(parts.size() == needed || parts.size() == needed + 1);
  for (auto& part : parts) KJ_ASSERT(part.offset < bytes.size() + 512);
  return 0;
}
