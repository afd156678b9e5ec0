// link: machined-system
// Notes about texts that were appended to files, from a disk that an attacker may have written.
#include <kj/debug.h>
#include <stdint.h>

#include "common/base/error.h"
#include "machined/system/appended-text.h"
#include "tests/fuzz/fuzz-target.h"

FUZZ_TARGET(appended) {
  using namespace talos::machined;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() {
                 auto notes = AppendedNotes::parse(text);
                 for (auto& file : notes.files()) {
                   auto blocks = notes.of(file);
                   KJ_ASSERT(blocks.size() > 0, "a file without a block");
                   KJ_ASSERT(withoutBlock(text, blocks).size() <= size);
                 }
               })) {
    KJ_ASSERT(talos::kindOf(*e) == talos::ErrorKind::kInvalidArgument, *e);
  }
  return 0;
}
