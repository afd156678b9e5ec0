// link: machined-platforms-readers
// Metadata of a platform: a byte that selects it, then its answers, in the order of its requests,
// with a byte of 1 between them.
#include <capnp/message.h>
#include <kj/debug.h>

#include "machined/platforms/nocloud.h"
#include "machined/platforms/readers/readers.h"
#include "tests/fuzz/fuzz-target.h"

namespace {

using namespace talos;
using namespace talos::platforms;

void checkAddressing(capnp::List<capnp::Text>::Reader addresses,
                     capnp::List<config::Route>::Reader routes, unsigned mtu) {
  KJ_ASSERT(addresses.size() <= kMostAddresses && routes.size() <= kMostRoutes);
  KJ_ASSERT(mtu == 0 || (mtu >= kSmallestMtu && mtu <= kLargestMtu), mtu);
  for (auto address : addresses) KJ_ASSERT(Prefix::parse(address) != nullptr, address);
  for (auto route : routes) {
    KJ_ASSERT(Prefix::parse(route.getNetwork()) != nullptr, route.getNetwork());
    bool local = route.getGateway().size() == 0;
    KJ_ASSERT(local || Ip::parse(route.getGateway()) != nullptr, route.getGateway());
  }
}

void check(const PlatformFacts& facts) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<rpc::PlatformFacts>();
  facts.fill(root);
  auto network = root.asReader().getNetwork();
  KJ_ASSERT(network.getInterfaces().size() <= kMostInterfaces);
  for (auto interface : network.getInterfaces()) {
    checkAddressing(interface.getAddresses(), interface.getRoutes(), interface.getMtu());
    for (auto vlan : interface.getVlans()) {
      KJ_ASSERT(vlan.getVlanId() <= kLargestVlan);
      checkAddressing(vlan.getAddresses(), vlan.getRoutes(), vlan.getMtu());
    }
  }
  KJ_ASSERT(network.getNameservers().size() <= kMostAddresses);
  KJ_ASSERT(root.asReader().getExternalAddresses().size() <= kMostAddresses);
  for (auto server : network.getNameservers()) KJ_ASSERT(Ip::parse(server) != nullptr, server);
  for (auto address : root.asReader().getExternalAddresses()) {
    KJ_ASSERT(Ip::parse(address) != nullptr, address);
  }
  KJ_ASSERT(root.asReader().getProblems().size() <= kMostProblems);
}

Answers answersOf(const Platform& platform, kj::ArrayPtr<const char> text) {
  constexpr char kBetween = 1;
  Answers answers;
  auto add = [&](kj::StringPtr name) {
    size_t end = 0;
    while (end < text.size() && text[end] != kBetween) ++end;
    answers.add(name, kj::heapArray(text.slice(0, end)));
    text = text.slice(kj::min(end + 1, text.size()), text.size());
  };
  for (auto& request : platform.facts) add(request.name);
  add(platform.config.name.size() > 0 ? platform.config.name : "metadata"_kj);
  return answers;
}

}  // namespace

FUZZ_TARGET(platform) {
  if (size == 0) return 0;
  auto& platform = *all()[data[0] % all().size()];
  auto text = kj::arrayPtr(reinterpret_cast<const char*>(data + 1), size - 1);
  PlatformFacts facts;
  KJ_IF_MAYBE (e, kj::runCatchingExceptions(
                      [&] { read(platform, answersOf(platform, text), facts); })) {
    (void)e;
  } else {
    check(facts);
  }
  (void)serverProblem(nocloudSeed(kj::heapString(text)));
  return 0;
}
