// VMware: guestinfo variables by open-vm-tools' names; metadata as "VMware" of cloud-init's
// documentation has it.
#include "machined/platforms/vmware.h"

#include "common/text/ascii.h"
#include "machined/platforms/cloud-network.h"
#include "machined/platforms/platform.h"
#include "machined/platforms/xml.h"

namespace talos::platforms {
namespace {

bool matches(const Firmware& firmware) {
  return firmware.vendor == "VMware, Inc." || firmware.product.startsWith("VMware");
}

void read(const Answers& answers, PlatformFacts& facts) {
  if (!answers.has("metadata")) return;
  Document document("metadata", answers.bytes("metadata"));
  auto root = document.root();
  facts.hostname = kj::str(root["local-hostname"].text());
  facts.instanceId = kj::str(root["instance-id"].text());
  if (root["network"].isMapping()) readCloudNetwork(root, facts);
}

}  // namespace

kj::String ovfProperty(kj::StringPtr key, kj::ArrayPtr<const char> environment) {
  for (auto& property : elementsCalled("Property", "guestinfo.ovfenv", environment)) {
    if (property.attribute("key") == key) return kj::str(property.attribute("value"));
  }
  return kj::String();
}

const Platform kVmware{
    .name = "vmware"_kj, .title = "VMware"_kj, .server = ""_kj, .matches = matches, .read = read};

}  // namespace talos::platforms
