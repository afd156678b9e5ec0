#include "networkd/plan/plan-preview.h"

#include <algorithm>
#include <map>
#include <string>

#include "common/base/resource.h"
#include "networkd/plan/planned-network.h"
#include "networkd/plan/wanted-specs.h"

namespace talos::networkd {
namespace {

constexpr unsigned kMaxRounds = 8;

template <typename Spec>
void each(capnp::List<rpc::Resource>::Reader specs, auto&& take) {
  for (auto resource : specs) {
    if (resource.getMetadata().getType() == typeName<Spec>()) take(ResourceOf<Spec>(resource));
  }
}

}  // namespace

Preview preview(const Wanted& wanted, const Observed& observed) {
  Preview result;
  PlannedNetwork network(observed);
  std::map<std::string, kj::String> refused;  // steps that Linux would refuse, and the errors; each
                                              // plan repeats them
  for (unsigned round = 0; round < kMaxRounds; ++round) {
    auto now = network.state();
    auto todo = plan(wanted, now);
    result.problems = kj::mv(todo.problems);
    kj::Vector<netlink::Change> changes;
    kj::Vector<kj::String> texts;
    for (auto& step : todo.steps) {
      auto text = describe(step.change, now);
      auto before = refused.find(text.cStr());
      if (before != refused.end()) {
        result.problems.add(kj::str(text, ": ", before->second));
        continue;
      }
      texts.add(kj::mv(text));
      changes.add(kj::mv(step.change));
    }
    if (changes.size() == 0) break;
    for (size_t i = 0; i < changes.size(); ++i) {
      KJ_IF_MAYBE (failure, network.apply(changes[i])) {
        refused.emplace(texts[i].cStr(), kj::mv(failure->reason));
      }
      result.steps.add(kj::mv(texts[i]));
    }
  }
  for (auto& problem : wanted.problems) result.problems.add(kj::str(problem));
  return result;
}

Wanted wantedOf(capnp::List<rpc::Resource>::Reader specs) {
  Wanted wanted;
  each<rpc::LinkSpecSpec>(specs,
                          [&](auto link) { addLink(wanted, link.id(), link.version(), link); });
  each<rpc::WireguardKeySpec>(specs, [&](auto key) { addWireguardKey(wanted, key.id(), key); });
  each<rpc::AddressSpecSpec>(
      specs, [&](auto address) { addAddress(wanted, address.id(), address.version(), address); });
  each<rpc::RouteSpecSpec>(
      specs, [&](auto route) { addRoute(wanted, route.id(), route.version(), route); });
  each<rpc::RoutingRuleSpecSpec>(
      specs, [&](auto rule) { addRule(wanted, rule.id(), rule.version(), rule); });
  return wanted;
}

}  // namespace talos::networkd
