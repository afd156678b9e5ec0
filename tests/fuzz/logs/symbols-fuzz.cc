// Files that a user gives as the names of a program's functions.
// link: common-crash
#include <kj/debug.h>

#include "common/crash/symbol-table.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace talos;
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  (void)kj::runCatchingExceptions([&]() { crash::gunzip(text.asBytes(), 1u << 20); });
  (void)kj::runCatchingExceptions([&]() {
    crash::SymbolTable table(kj::heapArray<char>(text.begin(), text.size()));
    for (uint64_t address : {uint64_t{0}, uint64_t{0x401000}, ~uint64_t{0}}) {
      KJ_IF_MAYBE (name, table.nameOf(address)) {
        KJ_ASSERT(name->size() > 0);
      }
    }
  });
  return 0;
}
