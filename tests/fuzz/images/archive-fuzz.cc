// Archives: those that a node sends, and installer images.
//
// link: machined-confined-parser common-tar
#include <kj/debug.h>
#include <string.h>

#include "common/tar/tar-reader.h"
#include "machined/confined/parser/image-archive.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

// Puts the checksum of every block of 512 bytes right, which a fuzzer would have to guess; with
// `onlyHeaders`, only of blocks with the magic of a header.
void fitChecksums(kj::ArrayPtr<kj::byte> bytes, bool onlyHeaders) {
  for (size_t at = 0; at + 512 <= bytes.size(); at += 512) {
    if (onlyHeaders && memcmp(bytes.begin() + at + 257, "ustar", 5) != 0) continue;
    unsigned sum = 8 * ' ';
    for (size_t i = 0; i < 512; ++i) sum += i < 148 || i >= 156 ? bytes[at + i] : 0;
    for (int i = 5; i >= 0; --i, sum /= 8) bytes[at + 148 + i] = kj::byte('0' + sum % 8);
    bytes[at + 154] = 0;
    bytes[at + 155] = ' ';
  }
}

}  // namespace

// Any bytes, as the archive of an installer image. Parts that are found lie within the archive.
FUZZ_TARGET(image) {
  using namespace talos;
  if (size < 1) return 0;
  auto bytes = kj::heapArray<kj::byte>(kj::arrayPtr(data + 1, size - 1));
  if (data[0] & 1) fitChecksums(bytes, true);
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

namespace {

// Checks the promises of the reader to its visitor.
struct Checker final : public talos::TarVisitor {
  uint64_t left = 0;
  bool open = false;
  void entry(const talos::TarEntry& e) override {
    KJ_ASSERT(!open);
    open = true;
    left = e.size;
    KJ_IF_MAYBE (parts, talos::safePath(e.path)) {
      KJ_ASSERT(parts->size() > 0);
      for (auto& part : *parts) {
        KJ_ASSERT(part.size() > 0 && part != "." && part != "..");
        KJ_ASSERT(part.findFirst('/') == nullptr && part.findFirst('\0') == nullptr);
      }
    }
  }
  void data(kj::ArrayPtr<const kj::byte> bytes) override {
    KJ_ASSERT(open && bytes.size() <= left);
    left -= bytes.size();
  }
  void end() override {
    KJ_ASSERT(open && left == 0);
    open = false;
  }
};

}  // namespace

// Archives that a node sends: any bytes in any pieces, and names that must stay inside.
FUZZ_TARGET(tar) {
  if (size < 2) return 0;
  size_t step = size_t(data[0]) * 7 + 1;  // the pieces are a part of the input
  bool fix = data[1] & 1;
  auto bytes = kj::heapArray<kj::byte>(kj::arrayPtr(data + 2, size - 2));
  if (fix) fitChecksums(bytes, false);
  talos::TarReader reader;
  Checker checker;
  for (size_t at = 0; at < bytes.size(); at += step) {
    if (reader.feed(bytes.slice(at, kj::min(at + step, bytes.size())), checker) != nullptr)
      return 0;
  }
  reader.finish();
  return 0;
}
