#include "machined/platforms/readers/vmware.h"

#include <algorithm>

#include "common/text/ascii.h"
#include "common/xml/xml.h"
#include "machined/platforms/readers/cloud-network.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

void readVmware(const Answers& answers, PlatformFacts& facts) {
  if (!answers.has("metadata")) return;
  Document document("metadata", answers.bytes("metadata"));
  auto root = document.root();
  facts.hostname = kj::str(root["local-hostname"].text());
  facts.instanceId = kj::str(root["instance-id"].text());
  if (root["network"].isMapping()) readCloudNetwork(root, facts);
}

kj::Array<char> ovfProperty(kj::StringPtr key, kj::StringPtr what,
                            kj::ArrayPtr<const char> environment) {
  for (auto& property : elementsCalled("Property", what, environment)) {
    if (property.attribute("key") == key)
      return kj::heapArray(property.attribute("value").asArray());
  }
  return nullptr;
}

kj::Maybe<kj::String> ovfWithout(kj::ArrayPtr<const kj::StringPtr> keys, kj::StringPtr what,
                                 kj::ArrayPtr<const char> environment) {
  bool found = false;
  kj::Vector<kj::String> rest;
  for (auto& property : elementsCalled("Property", what, environment)) {
    auto key = property.attribute("key"), value = property.attribute("value");
    bool left = std::find(keys.begin(), keys.end(), key) == keys.end();
    if (left) {
      rest.add(
          kj::str("<Property key=\"", xmlEscaped(key), "\" value=\"", xmlEscaped(value), "\"/>"));
    } else {
      found = found || trimmed(value).size() > 0;
    }
  }
  if (!found) return nullptr;
  return kj::str("<Environment><PropertySection>", kj::strArray(rest, ""),
                 "</PropertySection></Environment>");
}

}  // namespace talos::platforms
