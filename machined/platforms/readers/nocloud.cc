#include "machined/platforms/cloud-config.h"
#include "machined/platforms/readers/cloud-network.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

void readNocloud(const Answers& answers, PlatformFacts& facts) {
  if (answers.has("meta-data")) {
    Document document("meta-data", answers.bytes("meta-data"));
    auto root = document.root();
    auto local = root["local-hostname"].text();
    facts.hostname = kj::str(root["hostname"].exists() ? root["hostname"].text() : local);
    facts.instanceId = kj::str(root["instance-id"].text());
    facts.instanceType = kj::str(root["instance-type"].text());
    facts.providerId = kj::str(root["provider-id"].text());
    facts.region = kj::str(root["region"].text());
    facts.zone = kj::str(root["zone"].text());
    facts.internalDns = kj::str(local);
    facts.externalDns = kj::str(root["public-hostname"].text());
  }
  // Proxmox VE gives the host name only there.
  if (facts.hostname.size() == 0 && isCloudConfig(answers.bytes("user-data"))) {
    Document document("user-data", answers.bytes("user-data"));
    facts.hostname = kj::str(document.root()["hostname"].text());
  }
  if (answers.has("network-config")) {
    Document document("network-config", answers.bytes("network-config"));
    readCloudNetwork(document.root(), facts);
  }
}

}  // namespace talos::platforms
