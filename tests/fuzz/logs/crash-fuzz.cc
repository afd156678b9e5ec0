// A program's record of its own crash, written in its last moments or by an attacker.
// link: common-crash
#include <kj/debug.h>
#include <string.h>

#include "common/crash/crash-record.h"
#include "common/crash/symbol-table.h"

namespace {

using namespace talos;

void checkPrintable(kj::ArrayPtr<const kj::String> values) {
  for (auto& value : values) {
    KJ_ASSERT(value.size() <= crash::kLongestValue);
    for (char c : value) KJ_ASSERT(c >= ' ' && c <= '~');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
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
