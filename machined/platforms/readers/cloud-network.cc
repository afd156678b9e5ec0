#include "machined/platforms/readers/cloud-network.h"

#include "common/base/error.h"
#include "common/text/texts.h"

namespace talos::platforms {

static_assert(kMostItems > kMostAddresses && kMostItems > kMostRoutes,
              "a list that is too long would be cut without a problem");

namespace {

template <typename Enum>
void readEnum(kj::StringPtr where, Value mapping, kj::StringPtr key, Enum& value,
              PlatformFacts& facts) {
  auto text = mapping[key].textOrShape();
  if (!setEnum(text, value)) facts.invalid(where, text, key);
}

}  // namespace

void readCloudNetwork(Value root, PlatformFacts& facts) {
  auto network = root["network"].isMapping() ? root["network"] : root;
  auto version = network["version"];
  switch (version.number()) {
    case 1:
      return readVersion1(network, facts);
    case 2:
      return readVersion2(network, facts);
    default:
      fail(ErrorKind::kInvalidArgument,
           version.exists()
               ? kj::str("network-config: version \"", version.text(), "\" is neither 1 nor 2")
               : kj::str("network-config: there is no key \"version\""));
  }
}

void checkKeys(kj::StringPtr where, Value mapping, kj::ArrayPtr<const kj::StringPtr> known,
               PlatformFacts& facts) {
  for (auto& [key, value] : mapping.entries()) {
    bool read = contains(known, key);
    if (!read && value.exists()) facts.unsupported(where, key);
  }
}

unsigned numberOf(kj::StringPtr where, Value mapping, kj::StringPtr key, PlatformFacts& facts) {
  auto text = mapping[key].textOrShape();
  if (text.size() == 0) return 0;
  KJ_IF_MAYBE (number, numberIn(text, 0, kMostNumber)) return *number;
  facts.invalid(where, text, key);
  return 0;
}

bool flagOf(kj::StringPtr where, Value mapping, kj::StringPtr key, PlatformFacts& facts) {
  auto text = mapping[key].textOrShape();
  if (text.size() == 0) return false;
  KJ_IF_MAYBE (flag, codec::parseBool(text)) return *flag;
  facts.invalid(where, text, key);
  return false;
}

void readBondParameters(kj::StringPtr link, Value parameters, const BondKeys& keys, Bond& bond,
                        PlatformFacts& facts) {
  checkKeys(link, parameters,
            {keys.mode, keys.lacpRate, keys.hashPolicy, keys.miimon, keys.upDelay, keys.downDelay},
            facts);
  readEnum(link, parameters, keys.mode, bond.mode, facts);
  readEnum(link, parameters, keys.lacpRate, bond.lacpRate, facts);
  readEnum(link, parameters, keys.hashPolicy, bond.hashPolicy, facts);
  bond.miimon = numberOf(link, parameters, keys.miimon, facts);
  bond.upDelay = numberOf(link, parameters, keys.upDelay, facts);
  bond.downDelay = numberOf(link, parameters, keys.downDelay, facts);
}

void addCloudRoute(Interface& link, const CloudRoute& route, PlatformFacts& facts) {
  auto where = kj::str(link.name, ": route to \"", route.destination, "\"");
  if (route.gateway.size() == 0) return facts.invalid(where, route.gateway, "gateway");
  KJ_IF_MAYBE (gateway, facts.gatewayOf(where, route.gateway)) {
    auto destination = route.destination == "default" ? Prefix::all(gateway->family())
                                                      : prefixOf(route.destination, route.mask);
    KJ_IF_MAYBE (prefix, destination) {
      facts.addRoute(link, Route{.destination = prefix->masked(),
                                 .gateway = *gateway,
                                 .metric = route.metric == 0 ? metricOf(*gateway) : route.metric,
                                 .onlink = route.onlink});
    } else {
      facts.invalid(link.name, route.destination, "destination of a route");
    }
  }
}

}  // namespace talos::platforms
