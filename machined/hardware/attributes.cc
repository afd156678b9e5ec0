#include "machined/hardware/attributes.h"

#include <algorithm>
#include <utility>

#include "common/base/folder.h"
#include "common/kernel/sysfs-attributes.h"
#include "common/text/foreign-text.h"

namespace talos::machined {
kj::Maybe<int64_t> attributeNumber(kj::StringPtr device, kj::StringPtr name) {
  auto line = KJ_UNWRAP_OR_RETURN(readAttributeLine(device, name), nullptr);
  return line.tryParseAs<int64_t>();
}

kj::String attributeText(kj::StringPtr device, kj::StringPtr name) {
  return fieldText(readAttributeLine(device, name).orDefault(kj::String()));
}

kj::String linkName(kj::StringPtr link) {
  return fieldText(nameOfTarget(link));
}

kj::Vector<kj::String> numberedNames(kj::StringPtr folder, kj::StringPtr prefix, size_t most) {
  kj::Vector<std::pair<uint32_t, kj::String>> found;
  for (auto& name : namesIn(folder, most)) {
    if (!name.startsWith(prefix)) continue;
    KJ_IF_MAYBE (number, name.slice(prefix.size()).tryParseAs<uint32_t>()) {
      found.add(std::pair(*number, kj::mv(name)));
    }
  }
  std::sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.first < b.first; });
  kj::Vector<kj::String> names(found.size());
  for (auto& each : found) names.add(kj::mv(each.second));
  return names;
}

}  // namespace talos::machined
