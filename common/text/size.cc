#include "common/text/size.h"

namespace talos {

kj::String decimalSize(uint64_t bytes) {
  constexpr kj::StringPtr kUnits[] = {"B"_kj, "kB"_kj, "MB"_kj, "GB"_kj, "TB"_kj, "PB"_kj, "EB"_kj};
  auto rounded = [&](uint64_t part) { return bytes / part + (bytes % part >= part / 2 ? 1 : 0); };
  if (bytes < 1000) return kj::str(bytes, " B");
  size_t unit = 1;
  uint64_t scale = 1000;
  // Uses the next unit if rounding would show "1000".
  for (; unit + 1 < kj::size(kUnits) && rounded(scale) >= 1000; ++unit) scale *= 1000;
  auto tenths = rounded(scale / 10);
  if (tenths < 100) return kj::str(tenths / 10, ".", tenths % 10, " ", kUnits[unit]);
  return kj::str(rounded(scale), " ", kUnits[unit]);
}

kj::String timeSpan(uint64_t seconds) {
  auto part = [](uint64_t count, kj::StringPtr unit) {
    return count > 0 ? kj::str(count, unit) : kj::str();
  };
  if (seconds == 0) return kj::str("0s");
  return kj::str(part(seconds / 3600, "h"), part(seconds / 60 % 60, "m"), part(seconds % 60, "s"));
}

}  // namespace talos
