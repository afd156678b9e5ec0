#include "common/text/ascii.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

void readAws(const Answers& answers, PlatformFacts& facts) {
  facts.hostname = answers.line("hostname");
  facts.instanceType = answers.line("instance-type");
  facts.instanceId = answers.line("instance-id");
  facts.region = answers.line("region");
  facts.zone = answers.line("zone");
  facts.spot = answers.line("life-cycle") == "spot";
  facts.internalDns = answers.line("local-hostname");
  facts.externalDns = answers.line("public-hostname");
  facts.providerId = kj::str("aws:///", facts.zone, "/", facts.instanceId);
  facts.external(answers.line("public-ipv4"));
  facts.external(answers.line("ipv6"));
  // "Amazon Time Sync Service": reachable from every instance.
  facts.timeServers.add(kj::str("169.254.169.123"));
}

}  // namespace talos::platforms
