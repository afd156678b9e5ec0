#include "machined/disk/volumes/swaps.h"

#include "common/base/lines.h"
#include "machined/disk/volumes/mount-table.h"

namespace talos::machined {
namespace {

kj::Vector<kj::String> fieldsOf(kj::ArrayPtr<const char> line) {
  kj::Vector<kj::String> fields;
  size_t begin = 0;
  for (size_t at = 0; at <= line.size(); ++at) {
    bool blank = at == line.size() || line[at] == ' ' || line[at] == '\t';
    if (!blank) continue;
    if (at > begin) fields.add(unescaped(line.slice(begin, at)));
    begin = at + 1;
  }
  return fields;
}

}  // namespace

kj::Vector<Swap> swapsIn(kj::StringPtr table) {
  kj::Vector<Swap> swaps;
  for (auto line : Lines(table)) {
    auto fields = fieldsOf(line);
    if (fields.size() < 5 || !fields[0].startsWith("/")) continue;  // the heading
    swaps.add(Swap{.device = kj::mv(fields[0]),
                   .type = kj::mv(fields[1]),
                   .bytes = fields[2].tryParseAs<uint64_t>().orDefault(0) * 1024,
                   .used = fields[3].tryParseAs<uint64_t>().orDefault(0) * 1024,
                   .priority = fields[4].tryParseAs<int>().orDefault(0)});
  }
  return swaps;
}

kj::Maybe<kj::String> whySwapStays(kj::StringPtr table, kj::StringPtr meminfo,
                                   kj::StringPtr device) {
  constexpr uint64_t kMiB = 1u << 20;
  uint64_t available = 0;
  for (auto line : Lines(meminfo)) {
    auto fields = fieldsOf(line);
    if (fields.size() < 2 || fields[0] != "MemAvailable:") continue;
    available = fields[1].tryParseAs<uint64_t>().orDefault(0) * 1024;
  }
  for (auto& swap : swapsIn(table)) {
    if (swap.device != device || swap.used <= available) continue;
    return kj::str(swap.used / kMiB, " MiB of memory are on ", device, ", and ", available / kMiB,
                   " MiB of memory are available");
  }
  return nullptr;
}

}  // namespace talos::machined
