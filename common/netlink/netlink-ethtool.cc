#include "common/netlink/netlink-ethtool.h"

#include <errno.h>
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <linux/netlink.h>
#include <string.h>

#include <algorithm>
#include <map>

#include "common/base/error.h"
#include "common/netlink/netlink-attributes.h"
#include "common/netlink/netlink-codec.h"
#include "common/netlink/netlink-generic.h"
#include "common/netlink/netlink-socket.h"

namespace talos::netlink {
namespace {

constexpr auto kEthtoolDeadline = 5 * kj::SECONDS;  // of the kernel's answer
constexpr uint16_t kEthtoolRequest = NLM_F_REQUEST | NLM_F_ACK;
// The header has the same number in the messages of every group.
constexpr uint16_t kEthtoolHeader = ETHTOOL_A_RINGS_HEADER;
static_assert(kEthtoolHeader == ETHTOOL_A_CHANNELS_HEADER &&
              kEthtoolHeader == ETHTOOL_A_FEATURES_HEADER &&
              kEthtoolHeader == ETHTOOL_A_WOL_HEADER);
constexpr size_t kMostBits = 256;  // that are read of one set; Linux 6.12 has 64 features

// --- names
struct NumberRule {
  enum class Form { kNumber, kFlag, kSplit };  // kSplit: 1 is off, 2 is on, 0 is unknown

  kj::StringPtr name;
  uint16_t attribute;
  uint16_t most = 0;  // attribute of the maximum; 0: there is none
  Form form = Form::kNumber;
};
using Form = NumberRule::Form;

constexpr NumberRule kRingRules[] = {
    {"rx"_kj, ETHTOOL_A_RINGS_RX, ETHTOOL_A_RINGS_RX_MAX},
    {"tx"_kj, ETHTOOL_A_RINGS_TX, ETHTOOL_A_RINGS_TX_MAX},
    {"rx-mini"_kj, ETHTOOL_A_RINGS_RX_MINI, ETHTOOL_A_RINGS_RX_MINI_MAX},
    {"rx-jumbo"_kj, ETHTOOL_A_RINGS_RX_JUMBO, ETHTOOL_A_RINGS_RX_JUMBO_MAX},
    {"rx-buf-len"_kj, ETHTOOL_A_RINGS_RX_BUF_LEN},
    {"cqe-size"_kj, ETHTOOL_A_RINGS_CQE_SIZE},
    {"tx-push-buf-len"_kj, ETHTOOL_A_RINGS_TX_PUSH_BUF_LEN, ETHTOOL_A_RINGS_TX_PUSH_BUF_LEN_MAX},
    {"tx-push"_kj, ETHTOOL_A_RINGS_TX_PUSH, 0, Form::kFlag},
    {"rx-push"_kj, ETHTOOL_A_RINGS_RX_PUSH, 0, Form::kFlag},
    {"tcp-data-split"_kj, ETHTOOL_A_RINGS_TCP_DATA_SPLIT, 0, Form::kSplit},
};
constexpr NumberRule kChannelRules[] = {
    {"rx"_kj, ETHTOOL_A_CHANNELS_RX_COUNT, ETHTOOL_A_CHANNELS_RX_MAX},
    {"tx"_kj, ETHTOOL_A_CHANNELS_TX_COUNT, ETHTOOL_A_CHANNELS_TX_MAX},
    {"other"_kj, ETHTOOL_A_CHANNELS_OTHER_COUNT, ETHTOOL_A_CHANNELS_OTHER_MAX},
    {"combined"_kj, ETHTOOL_A_CHANNELS_COMBINED_COUNT, ETHTOOL_A_CHANNELS_COMBINED_MAX},
};

kj::ArrayPtr<const NumberRule> rulesOf(EthernetGroup group) {
  if (group == EthernetGroup::kRings) return kRingRules;
  if (group == EthernetGroup::kChannels) return kChannelRules;
  return nullptr;
}

const NumberRule* ruleOf(EthernetGroup group, const std::string& name) {
  for (auto& rule : rulesOf(group)) {
    if (rule.name == name.c_str()) return &rule;
  }
  return nullptr;
}

struct WakeMode {
  kj::StringPtr name, kernel;
};
constexpr WakeMode kWakeModes[] = {
    {"unicast"_kj, "ucast"_kj}, {"multicast"_kj, "mcast"_kj}, {"broadcast"_kj, "bcast"_kj}};

kj::StringPtr wakeModeToKernel(kj::StringPtr name) {
  for (auto& mode : kWakeModes) {
    if (mode.name == name) return mode.kernel;
  }
  return name;
}

std::string wakeModeFromKernel(const std::string& name) {
  for (auto& mode : kWakeModes) {
    if (mode.kernel == name.c_str()) return mode.name.cStr();
  }
  return name;
}

// --- sets of bits
struct NamedValue {
  std::string name;
  bool value = false;
};

NamedValue readBit(const nlattr* nest) {
  NamedValue bit;
  eachNested(nest, [&](unsigned type, const nlattr* attribute) {
    if (type == ETHTOOL_A_BITSET_BIT_NAME) bit.name = text(payload(attribute)).cStr();
    if (type == ETHTOOL_A_BITSET_BIT_VALUE) bit.value = true;
  });
  return bit;
}

// Returns the bits that are set if the set has no mask, otherwise all bits of its mask. A bit
// without a name is of no use to a reader, and is left out.
std::vector<NamedValue> readBits(const nlattr* set) {
  std::vector<NamedValue> bits;
  bool withoutMask = false;
  eachNested(set, [&](unsigned type, const nlattr* attribute) {
    if (type == ETHTOOL_A_BITSET_NOMASK) withoutMask = true;
    if (type != ETHTOOL_A_BITSET_BITS) return;
    eachNested(attribute, [&](unsigned, const nlattr* nest) {
      auto bit = readBit(nest);
      if (!bit.name.empty() && bits.size() < kMostBits) bits.push_back(std::move(bit));
    });
  });
  if (withoutMask) {
    for (auto& bit : bits) bit.value = true;
  }
  return bits;
}

void putBit(MessageBuilder& out, kj::StringPtr name, bool value) {
  out.nest(ETHTOOL_A_BITSET_BITS_BIT, [&] {
    out.putText(ETHTOOL_A_BITSET_BIT_NAME, name);
    if (value) out.put(ETHTOOL_A_BITSET_BIT_VALUE, nullptr);
  });
}

// --- groups
std::vector<EthernetNumber> readNumbers(const Generic& message, EthernetGroup group) {
  std::map<unsigned, uint32_t> wide, narrow;  // by attribute
  eachAttribute(message, [&](unsigned type, const nlattr* attribute) {
    KJ_IF_MAYBE (value, number<uint32_t>(attribute)) wide[type] = *value;
    KJ_IF_MAYBE (value, number<uint8_t>(attribute)) narrow[type] = *value;
  });
  std::vector<EthernetNumber> numbers;
  for (auto& rule : rulesOf(group)) {
    auto& values = rule.form == Form::kNumber ? wide : narrow;
    auto value = values.find(rule.attribute), most = wide.find(rule.most);
    if (value == values.end()) continue;
    EthernetNumber entry{.name = rule.name.cStr(), .value = value->second};
    if (rule.form == Form::kSplit) {
      if (value->second == ETHTOOL_TCP_DATA_SPLIT_UNKNOWN) continue;
      entry.value = value->second == ETHTOOL_TCP_DATA_SPLIT_ENABLED;
    }
    if (rule.most != 0 && most != wide.end()) entry.most = most->second;
    numbers.push_back(std::move(entry));
  }
  return numbers;
}

std::vector<EthernetFeature> readFeatures(const Generic& message) {
  std::vector<EthernetFeature> features;
  std::map<std::string, bool> requested, active, constant;
  auto collect = [](const nlattr* set, std::map<std::string, bool>& names) {
    for (auto& bit : readBits(set)) names[bit.name] = bit.value;
  };
  eachAttribute(message, [&](unsigned type, const nlattr* attribute) {
    if (type == ETHTOOL_A_FEATURES_WANTED) collect(attribute, requested);
    if (type == ETHTOOL_A_FEATURES_ACTIVE) collect(attribute, active);
    if (type == ETHTOOL_A_FEATURES_NOCHANGE) collect(attribute, constant);
    if (type != ETHTOOL_A_FEATURES_HW) return;
    for (auto& bit : readBits(attribute)) {
      features.push_back({.name = bit.name, .fixed = !bit.value});
    }
  });
  auto has = [](const std::map<std::string, bool>& names, const std::string& name) {
    auto found = names.find(name);
    return found != names.end() && found->second;
  };
  for (auto& feature : features) {
    feature.active = has(active, feature.name);
    feature.requested = has(requested, feature.name);
    feature.fixed = feature.fixed || has(constant, feature.name);
  }
  return features;
}

WakeOnLan readWakeOnLan(const Generic& message) {
  WakeOnLan result;
  eachAttribute(message, [&](unsigned type, const nlattr* attribute) {
    if (type != ETHTOOL_A_WOL_MODES) return;
    for (auto& bit : readBits(attribute)) {
      auto name = wakeModeFromKernel(bit.name);
      if (bit.value) result.enabled.push_back(name);
      result.supported.push_back(name);
    }
  });
  return result;
}

struct Commands {
  uint8_t get, set;
};

Commands commandsOf(EthernetGroup group) {
  switch (group) {
    case EthernetGroup::kRings:
      return {ETHTOOL_MSG_RINGS_GET, ETHTOOL_MSG_RINGS_SET};
    case EthernetGroup::kFeatures:
      return {ETHTOOL_MSG_FEATURES_GET, ETHTOOL_MSG_FEATURES_SET};
    case EthernetGroup::kChannels:
      return {ETHTOOL_MSG_CHANNELS_GET, ETHTOOL_MSG_CHANNELS_SET};
    case EthernetGroup::kWakeOnLan:
      return {ETHTOOL_MSG_WOL_GET, ETHTOOL_MSG_WOL_SET};
  }
  KJ_UNREACHABLE;
}

void putStart(MessageBuilder& out, uint8_t command, unsigned index) {
  putGenericHeader(out, command, ETHTOOL_GENL_VERSION);
  out.nest(kEthtoolHeader, [&] { out.putU32(ETHTOOL_A_HEADER_DEV_INDEX, index); });
}

void putNumbers(MessageBuilder& out, const SetEthernet& set) {
  for (auto& value : set.values) {
    auto rule = ruleOf(set.group, value.name);
    if (rule == nullptr) {
      fail(ErrorKind::kInvalidArgument,
           kj::str(nameOf(set.group), ": unknown name \"", value.name.c_str(), "\""));
    }
    switch (rule->form) {
      case Form::kNumber:
        out.putU32(rule->attribute, value.value);
        break;
      case Form::kFlag:
        out.putU8(rule->attribute, value.value != 0 ? 1 : 0);
        break;
      case Form::kSplit:
        out.putU8(rule->attribute, value.value != 0 ? ETHTOOL_TCP_DATA_SPLIT_ENABLED
                                                    : ETHTOOL_TCP_DATA_SPLIT_DISABLED);
        break;
    }
  }
}

}  // namespace

kj::StringPtr nameOf(EthernetGroup group) {
  switch (group) {
    case EthernetGroup::kRings:
      return "rings"_kj;
    case EthernetGroup::kFeatures:
      return "features"_kj;
    case EthernetGroup::kChannels:
      return "channels"_kj;
    case EthernetGroup::kWakeOnLan:
      return "wakeOnLan"_kj;
  }
  KJ_UNREACHABLE;
}

kj::String describe(const SetEthernet& set) {
  kj::Vector<kj::String> parts;
  for (auto& value : set.values) {
    auto rule = ruleOf(set.group, value.name);
    if (set.group == EthernetGroup::kWakeOnLan) {
      parts.add(kj::str(value.name.c_str()));
    } else if (rule != nullptr && rule->form == Form::kNumber) {
      parts.add(kj::str(value.name.c_str(), " ", value.value));
    } else {
      parts.add(kj::str(value.name.c_str(), value.value != 0 ? " on" : " off"));
    }
  }
  if (parts.empty()) parts.add(kj::str("off"));
  return kj::str(nameOf(set.group), " ", kj::strArray(parts, ", "));
}

// --- messages
kj::Array<kj::byte> encodeEthernetRequest(uint16_t family, unsigned index, EthernetGroup group) {
  MessageBuilder out(family, kEthtoolRequest);
  putStart(out, commandsOf(group).get, index);
  return out.finish();
}

kj::Array<kj::byte> encodeEthernet(uint16_t family, const SetEthernet& set) {
  MessageBuilder out(family, kEthtoolRequest);
  putStart(out, commandsOf(set.group).set, set.index);
  switch (set.group) {
    case EthernetGroup::kRings:
    case EthernetGroup::kChannels:
      putNumbers(out, set);
      break;
    case EthernetGroup::kFeatures:
      out.nest(ETHTOOL_A_FEATURES_WANTED, [&] {
        out.nest(ETHTOOL_A_BITSET_BITS, [&] {
          for (auto& value : set.values) putBit(out, value.name.c_str(), value.value != 0);
        });
      });
      break;
    case EthernetGroup::kWakeOnLan:
      out.nest(ETHTOOL_A_WOL_MODES, [&] {
        out.put(ETHTOOL_A_BITSET_NOMASK, nullptr);
        out.nest(ETHTOOL_A_BITSET_BITS, [&] {
          for (auto& value : set.values) {
            putBit(out, wakeModeToKernel(value.name.c_str()), true);
          }
        });
      });
      break;
  }
  return out.finish();
}

void readEthernet(const Generic& message, EthernetState& state) {
  switch (message.command) {
    case ETHTOOL_MSG_RINGS_GET_REPLY:
      state.rings = readNumbers(message, EthernetGroup::kRings);
      break;
    case ETHTOOL_MSG_FEATURES_GET_REPLY:
      state.features = readFeatures(message);
      break;
    case ETHTOOL_MSG_CHANNELS_GET_REPLY:
      state.channels = readNumbers(message, EthernetGroup::kChannels);
      break;
    case ETHTOOL_MSG_WOL_GET_REPLY:
      state.wakeOnLan = readWakeOnLan(message);
      break;
    default:
      break;
  }
}

// --- the kernel
namespace {

kj::String reasonOf(const Ack& ack) {
  return ack.message.size() > 0 ? kj::str(ack.message, " (", strerror(ack.code), ")")
                                : kj::str(strerror(ack.code));
}

class KernelEthtool final : public Ethtool {
 public:
  EthernetState read(unsigned index) override;
  kj::Maybe<kj::String> set(const SetEthernet& set) override;

 private:
  kj::Maybe<Socket> open;
  kj::Maybe<uint16_t> familyNumber;  // stays until the kernel restarts

  Socket& socket() {
    KJ_IF_MAYBE (there, open) return *there;
    return open.emplace(NETLINK_GENERIC, kEthtoolDeadline);
  }
  uint16_t family();
  // Calls `each` with the kernel's answers.
  Ack ask(kj::Array<kj::byte> request, kj::StringPtr what,
          kj::FunctionParam<void(const Generic&)> each);
};

Ack KernelEthtool::ask(kj::Array<kj::byte> request, kj::StringPtr what,
                       kj::FunctionParam<void(const Generic&)> each) {
  return socket().tryDump(
      kj::mv(request), what, [] {},
      [&](Message&& message) {
        KJ_IF_MAYBE (part, message.body.tryGet<Generic>()) each(*part);
      });
}

uint16_t KernelEthtool::family() {
  KJ_IF_MAYBE (there, familyNumber) return *there;
  ask(encodeFamilyRequest(ETHTOOL_GENL_NAME), "find ethtool", [&](const Generic& part) {
    KJ_IF_MAYBE (number, readFamily(part)) familyNumber = *number;
  });
  KJ_IF_MAYBE (found, familyNumber) return *found;
  fail(ErrorKind::kUnimplemented, "the kernel has no netlink family \"ethtool\"");
}

EthernetState KernelEthtool::read(unsigned index) {
  EthernetState state;
  for (auto group : kEthernetGroups) {
    auto what = kj::str("read ", nameOf(group), " of link ", index);
    auto ack = ask(encodeEthernetRequest(family(), index, group), what,
                   [&](const Generic& part) { readEthernet(part, state); });
    // A driver without the group.
    if (ack.code == 0 || ack.code == EOPNOTSUPP) continue;
    fail(ErrorKind::kFailedPrecondition, kj::str(what, ": ", reasonOf(ack)));
  }
  return state;
}

kj::Maybe<kj::String> KernelEthtool::set(const SetEthernet& set) {
  // The answer of a change of features has a body, which tells nothing that is not read afterwards.
  auto ack = ask(encodeEthernet(family(), set), describe(set), [](const Generic&) {});
  if (ack.code == 0) return nullptr;
  return reasonOf(ack);
}

}  // namespace

kj::Own<Ethtool> openEthtool() {
  return kj::heap<KernelEthtool>();
}

}  // namespace talos::netlink
