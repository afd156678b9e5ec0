// Reports of crashes: records, core files, names of functions.
//
// link: common-crash talosctl-debug
#include <kj/debug.h>
#include <string.h>

#include "common/base/error.h"
#include "common/crash/crash-record.h"
#include "common/crash/symbol-table.h"
#include "talosctl/debug/crash-text.h"
#include "tests/fuzz/fuzz-target.h"

// Files that a user gives as the names of a program's functions.
FUZZ_TARGET(symbols) {
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

// A core file as a node answers it: Zstandard's bytes, damaged or made to grow.
FUZZ_TARGET(core) {
  using namespace talos;
  auto failure = kj::runCatchingExceptions([&] {
    auto core = talosctl::unpackedCore(kj::arrayPtr(data, size));
    KJ_ASSERT(core.size() <= talosctl::kMostCore);
  });
  KJ_IF_MAYBE (e, failure) {
    KJ_ASSERT(kindOf(*e) == ErrorKind::kInternal, *e);
  }
  return 0;
}

namespace {

using namespace talos;

void checkPrintable(kj::ArrayPtr<const kj::String> values) {
  for (auto& value : values) {
    KJ_ASSERT(value.size() <= crash::kLongestValue);
    for (char c : value) KJ_ASSERT(c >= ' ' && c <= '~');
  }
}

}  // namespace

// A program's record of its own crash, written in its last moments or by an attacker.
FUZZ_TARGET(crash) {
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data), size);
  KJ_IF_MAYBE (record, crash::parseCrashRecord(text)) {
    KJ_ASSERT(record->signal > 0);
    KJ_ASSERT(record->frames.size() <= crash::kMostFramesRead);
    KJ_ASSERT(record->map.size() <= crash::kMostMapLines);
    for (auto& frame : record->frames) KJ_ASSERT(crash::parseAddress(frame) != nullptr);
    checkPrintable(record->frames);
    checkPrintable(record->registers);
    checkPrintable(record->map);
    checkPrintable(kj::arrayPtr(&record->program, 1));
    checkPrintable(kj::arrayPtr(&record->buildId, 1));
  }
  return 0;
}
