#include "common/kernel/process-capabilities.h"

#include <stdlib.h>

#include "common/base/file.h"
#include "common/base/lines.h"

namespace talos {

kj::Maybe<uint64_t> boundingSetOf(kj::StringPtr status) {
  constexpr kj::StringPtr kKey = "CapBnd:\t"_kj;
  for (auto line : Lines(status)) {
    if (!line.startsWith(kKey)) continue;
    auto digits = kj::heapString(line.slice(kKey.size(), line.size()));
    char* end;
    auto set = strtoull(digits.cStr(), &end, 16);
    if (digits.size() > 0 && *end == '\0') return uint64_t(set);
  }
  return nullptr;
}

bool process1May(unsigned capability) {
  auto set = boundingSetOf(readFile("/proc/1/status")).orDefault(0);
  return capability < 64 && (set >> capability & 1) != 0;
}

}  // namespace talos
