// Archives that a node sends: any bytes in any pieces, and names that must stay inside.
// link: common-tar
#include <kj/debug.h>

#include "common/tar/tar-reader.h"
#include "tests/fuzz/images/tar-sums.h"

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

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  size_t step = size_t(data[0]) * 7 + 1;  // the pieces are a part of the input
  bool fix = data[1] & 1;
  auto bytes = kj::heapArray<kj::byte>(kj::arrayPtr(data + 2, size - 2));
  if (fix) talos::fuzz::fitChecksums(bytes, false);
  talos::TarReader reader;
  Checker checker;
  for (size_t at = 0; at < bytes.size(); at += step) {
    if (reader.feed(bytes.slice(at, kj::min(at + step, bytes.size())), checker) != nullptr)
      return 0;
  }
  reader.finish();
  return 0;
}
