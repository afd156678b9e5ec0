#include "machined/services/containers/container-use.h"

#include "common/base/file.h"
#include "common/base/lines.h"

namespace talos::machined {
namespace {

uint64_t numberIn(kj::StringPtr path) {
  auto text = tryReadFile(path).orDefault(nullptr);
  return firstLine(text).tryParseAs<uint64_t>().orDefault(0);
}

// Returns the value of the line "<key> <number>".
uint64_t valueIn(kj::StringPtr path, kj::StringPtr key) {
  auto text = tryReadFile(path).orDefault(nullptr);
  auto begin = kj::str(key, " ");
  for (auto line : Lines(text)) {
    auto whole = kj::heapString(line);
    if (!whole.startsWith(begin)) continue;
    return kj::str(whole.slice(begin.size())).tryParseAs<uint64_t>().orDefault(0);
  }
  return 0;
}

bool hasController(kj::StringPtr list, kj::StringPtr name) {
  while (list.size() > 0) {
    auto end = list.findFirst(',').orDefault(list.size());
    if (list.slice(0, end) == name.asArray()) return true;
    list = list.slice(kj::min(end + 1, list.size()));
  }
  return false;
}

uint64_t less(uint64_t bytes, uint64_t inactive) {
  return bytes - kj::min(bytes, inactive);
}

// Counts for "controllers" of version 1, which name their folder; empty for version 2, which is at
// the top or, beside version 1, in a folder.
void count(kj::StringPtr controllers, kj::StringPtr path, kj::StringPtr cgroups, GroupUse& use) {
  if (controllers.size() > 0) {
    auto folder = kj::str(cgroups, "/", controllers, path);
    if (hasController(controllers, "memory")) {
      use.memoryBytes = less(numberIn(kj::str(folder, "/memory.usage_in_bytes")),
                             valueIn(kj::str(folder, "/memory.stat"), "total_inactive_file"));
    }
    if (hasController(controllers, "cpuacct")) {
      use.cpuNanoseconds = numberIn(kj::str(folder, "/cpuacct.usage"));
    }
    return;
  }
  for (auto top : {""_kj, "/unified"_kj}) {
    auto folder = kj::str(cgroups, top, path);
    if (auto memory = numberIn(kj::str(folder, "/memory.current"))) {
      use.memoryBytes = less(memory, valueIn(kj::str(folder, "/memory.stat"), "inactive_file"));
    }
    if (auto time = valueIn(kj::str(folder, "/cpu.stat"), "usage_usec"); time > 0 && top == "") {
      use.cpuNanoseconds = time * 1000;
    }
  }
}

}  // namespace

GroupUse groupUseOf(uint32_t pid, kj::StringPtr proc, kj::StringPtr cgroups) {
  GroupUse use;
  auto groups = tryReadFile(kj::str(proc, "/", pid, "/cgroup")).orDefault(nullptr);
  for (auto& line : linesOf(groups)) {  // "4:memory:/kubepods/…"
    auto first = line.findFirst(':').orDefault(line.size());
    if (first == line.size()) continue;
    kj::StringPtr rest = line.slice(first + 1);
    auto second = rest.findFirst(':').orDefault(rest.size());
    if (second == rest.size()) continue;
    count(kj::heapString(rest.slice(0, second)), rest.slice(second + 1), cgroups, use);
  }
  return use;
}

}  // namespace talos::machined
