#include "machined/api/memory-lines.h"

#include "common/base/file.h"

namespace talos::machined {
namespace {

uint64_t valueOf(kj::ArrayPtr<const MemoryLine> lines, kj::StringPtr name) {
  for (auto& line : lines) {
    if (line.name == name) return line.value;
  }
  return 0;
}

// Bytes. `inactive` is the memory of files that were not used lately, which the kernel reclaims
// first.
struct Counted {
  uint64_t used = 0, files = 0, shared = 0, inactive = 0;
};

// Returns the counts of the topmost group that the node sees: of version 2, or of version 1 beside
// it.
Counted countedIn(kj::StringPtr cgroups) {
  Counted counted;
  auto read = [&](kj::StringPtr folder, kj::StringPtr usage, kj::StringPtr prefix) {
    auto text = tryReadFile(kj::str(folder, "/", usage));
    KJ_IF_MAYBE (number, text) {
      counted.used = parseNumber(*number).orDefault(0);
      auto stat = tryReadFile(kj::str(folder, "/memory.stat")).orDefault(nullptr);
      auto of = [&](kj::StringPtr key) { return flatKey(stat, kj::str(prefix, key)).orDefault(0); };
      counted.files = of(prefix.size() > 0 ? "cache"_kj : "file"_kj);
      counted.shared = of("shmem");
      counted.inactive = of("inactive_file");
    }
    return text != nullptr;
  };
  if (!read(cgroups, "memory.current", "")) {
    read(kj::str(cgroups, "/memory"), "memory.usage_in_bytes", "total_");
  }
  return counted;
}

}  // namespace

kj::Vector<MemoryLine> readMemory(kj::StringPtr proc, kj::StringPtr cgroups, kj::StringPtr limit) {
  auto lines = parseMeminfo(readFile(kj::str(proc, "/meminfo")));
  KJ_IF_MAYBE (text, tryReadFile(limit)) {
    auto total = kj::min(valueOf(parseMeminfo(*text), "MemTotal"), valueOf(lines, "MemTotal"));
    auto counted = countedIn(cgroups);
    auto left = [&](uint64_t bytes) { return total - kj::min(total, bytes >> 10); };
    kj::Vector<MemoryLine> own;
    auto add = [&](kj::StringPtr name, uint64_t value) {
      own.add(MemoryLine{kj::str(name), value, kj::str("kB")});
    };
    add("MemTotal", total);
    add("MemFree", left(counted.used));
    add("MemAvailable", left(counted.used - kj::min(counted.used, counted.inactive)));
    add("Buffers", 0);
    add("Cached", counted.files >> 10);
    add("Shmem", counted.shared >> 10);
    add("SwapTotal", 0);
    add("SwapFree", 0);
    return own;
  }
  return lines;
}

}  // namespace talos::machined
