#include "machined/hardware/topology.h"

#include <algorithm>

#include "common/base/folder.h"
#include "common/base/lines.h"
#include "common/kernel/sysfs-attributes.h"
#include "machined/hardware/attributes.h"

namespace talos::machined {
namespace {

constexpr size_t kMostNodes = 1024, kMostGroups = 16384, kMostOfAGroup = 4096;
constexpr uint64_t kKibibytesInMebibyte = 1024;

kj::Vector<kj::String> fieldsOf(kj::ArrayPtr<const char> line) {
  kj::Vector<kj::String> fields;
  for (size_t i = 0; i < line.size();) {
    size_t end = std::find(line.begin() + i, line.end(), ' ') - line.begin();
    if (end > i) fields.add(kj::heapString(line.slice(i, end)));
    i = end + 1;
  }
  return fields;
}

// "Node 0 MemTotal:       65842156 kB"
uint64_t mebibytesOf(kj::StringPtr meminfo) {
  for (auto line : Lines(meminfo)) {
    auto fields = fieldsOf(line);
    if (fields.size() < 4 || fields[2] != "MemTotal:") continue;
    return fields[3].tryParseAs<uint64_t>().orDefault(0) / kKibibytesInMebibyte;
  }
  return 0;
}

}  // namespace

kj::Vector<NumaNode> readNumaNodes(kj::StringPtr sys) {
  kj::Vector<NumaNode> nodes;
  auto folder = kj::str(sys, "/devices/system/node");
  for (auto& id : numberedNames(folder, "node", kMostNodes)) {
    auto path = kj::str(folder, "/", id);
    NumaNode node{.id = kj::mv(id), .cpus = attributeText(path, "cpulist"), .distances = {}};
    node.mebibytes = mebibytesOf(readAttribute(path, "meminfo").orDefault(kj::String()));
    for (auto& field : fieldsOf(attributeText(path, "distance"))) {
      KJ_IF_MAYBE (distance, field.tryParseAs<uint32_t>()) node.distances.add(*distance);
    }
    nodes.add(kj::mv(node));
  }
  return nodes;
}

kj::Vector<IommuGroup> readIommuGroups(kj::StringPtr sys) {
  kj::Vector<IommuGroup> groups;
  auto folder = kj::str(sys, "/kernel/iommu_groups");
  for (auto& id : numberedNames(folder, "", kMostGroups)) {
    auto path = kj::str(folder, "/", id);
    groups.add(IommuGroup{.id = kj::mv(id),
                          .type = attributeText(path, "type"),
                          .devices = namesIn(kj::str(path, "/devices"), kMostOfAGroup)});
  }
  return groups;
}

}  // namespace talos::machined
