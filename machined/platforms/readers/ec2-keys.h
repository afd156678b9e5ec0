// Metadata in the form of CloudStack's virtual routers, one key a file, which Exoscale has kept.
#pragma once

#include "common/text/ascii.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {

inline void readKeys(const Answers& answers, kj::StringPtr scheme, PlatformFacts& facts) {
  facts.hostname = answers.line("hostname");
  facts.instanceId = answers.line("instance-id");
  facts.zone = answers.line("zone");
  facts.region = kj::str(facts.zone);
  // "Standard.Tiny 1024mb"
  auto offering = lowerCase(answers.line("offering"));
  KJ_IF_MAYBE (blank, offering.findFirst(' ')) {
    offering = kj::heapString(offering.slice(0, *blank));
  }
  facts.instanceType = kj::mv(offering);
  facts.providerId = kj::str(scheme, "://", facts.instanceId);
  facts.external(answers.line("public-ipv4"));
}

}  // namespace talos::platforms
