#include "common/bond/bond-options.h"

#include <capnp/dynamic.h>
#include <kj/debug.h>
#include <kj/vector.h>

#include "common/base/annotation.h"

namespace talos::netlink {

// --- conversion from and to the machine config
namespace {

// config::BondMode has the kernel's numbers.
static_assert(unsigned(config::BondMode::LACP) == unsigned(BondMode::kLacp) &&
              unsigned(config::BondMode::BALANCE_ALB) == unsigned(BondMode::kBalanceAlb));

kj::Maybe<Mac> parseMac(kj::StringPtr text) {
  Mac mac;
  if (text.size() != mac.size() * 3 - 1) return nullptr;
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  for (size_t i = 0; i < mac.size(); ++i) {
    int high = digit(text[i * 3]), low = digit(text[i * 3 + 1]);
    bool separated = i + 1 == mac.size() || text[i * 3 + 2] == ':';
    if (high < 0 || low < 0 || !separated) return nullptr;
    mac[i] = high << 4 | low;
  }
  return mac;
}

// Returns the field of the machine config that has the option as a number; nullptr for an option
// without such a field.
kj::Maybe<capnp::StructSchema::Field> numberOf(const BondRule& rule) {
  KJ_IF_MAYBE (field, capnp::Schema::from<config::Bond>().findFieldByName(rule.name)) {
    if (!field->getType().isText()) return *field;
  }
  return nullptr;
}

uint32_t valueOf(capnp::DynamicValue::Reader value) {
  switch (value.getType()) {
    case capnp::DynamicValue::BOOL:
      return value.as<bool>();
    case capnp::DynamicValue::ENUM:
      return value.as<capnp::DynamicEnum>().getRaw();
    default:
      return value.as<uint32_t>();
  }
}

void setValue(capnp::DynamicStruct::Builder to, capnp::StructSchema::Field field, uint32_t value) {
  auto type = field.getType();
  if (type.isBool()) {
    to.set(field, value != 0);
  } else if (type.isEnum()) {
    to.set(field, capnp::DynamicEnum(type.asEnum(), value));
  } else {
    to.set(field, value);
  }
}

// Returns true if 0 in the config is a value and not the default.
bool meansZero(const BondRule& rule) {
  return rule.option == BondOption::kMode || (rule.standard != 0 && rule.least == 0);
}

}  // namespace

BondMode BondOptions::mode() const {
  auto value = numbers[size_t(BondOption::kMode)].value_or(0);
  return value < kBondModes ? BondMode(value) : BondMode::kBalanceRr;
}

kj::StringPtr nameOf(BondMode mode) {
  return annotation::enumName(config::BondMode(mode)).orDefault("unknown");
}

BondOptions bondOptions(config::Bond::Reader bond) {
  BondOptions options;
  for (auto& rule : bondRules()) {
    KJ_IF_MAYBE (field, numberOf(rule)) {
      auto value = valueOf(capnp::DynamicStruct::Reader(bond).get(*field));
      if (value != 0 || meansZero(rule)) options[rule.option] = value;
    }
  }
  std::vector<Ip> targets;
  for (auto text : bond.getArpIPTarget()) {
    KJ_IF_MAYBE (ip, Ip::parse(text)) {
      if (ip->family() == AF_INET) targets.push_back(*ip);
    }
  }
  if (!targets.empty()) options.arpTargets = std::move(targets);
  KJ_IF_MAYBE (mac, parseMac(bond.getAdActorSystem())) {
    if (*mac != Mac{}) options.actorSystem = *mac;
  }
  return options;
}

void fillBond(config::Bond::Builder out, const BondOptions& options) {
  capnp::DynamicStruct::Builder fields = out;
  for (auto& rule : bondRules()) {
    auto value = options[rule.option];
    KJ_IF_MAYBE (field, numberOf(rule)) {
      if (value) setValue(fields, *field, *value);
    }
  }
  out.setMode(config::BondMode(options.mode()));
  if (options.arpTargets && !options.arpTargets->empty()) {
    auto list = out.initArpIPTarget(options.arpTargets->size());
    for (size_t i = 0; i < list.size(); ++i) list.set(i, (*options.arpTargets)[i].toString());
  }
}

// --- rules
namespace {

using O = BondOption;

constexpr uint8_t kAll = 0b1111111, kPrimaryModes = 0b1100010, kAdaptive = 0b1100000,
                  kRoundRobin = 0b0000001, kActiveBackup = 0b0000010, kHashModes = 0b0110100,
                  kFailOverModes = 0b1100011;
constexpr uint32_t kInt = 0x7fffffff;  // of the driver's int
constexpr uint32_t kLinkMonitoring = 100;

constexpr BondRule kRules[] = {
    // option, name, bytes, standard, down, empty, modes, most, least
    {O::kMode, "mode"_kj, 1, 0, true, true, kAll, 6},
    {O::kActiveMember, "activeMember"_kj, 4, 0, false, false, kPrimaryModes, kInt},
    {O::kMiimon, "miimon"_kj, 4, 0, false, false, kAll, kInt},
    {O::kUpDelay, "updelay"_kj, 4, 0, false, false, kAll, kInt},
    {O::kDownDelay, "downdelay"_kj, 4, 0, false, false, kAll, kInt},
    {O::kPeerNotifDelay, "peerNotifyDelay"_kj, 4, 0, false, false, kAll, 300000},
    {O::kUseCarrier, "useCarrier"_kj, 1, 1, false, false, kAll, 1},
    {O::kArpInterval, "arpInterval"_kj, 4, 0, false, false, kArpModes, kInt},
    {O::kArpValidate, "arpValidate"_kj, 4, 0, false, false, kArpModes, 6},
    {O::kArpAllTargets, "arpAllTargets"_kj, 4, 0, false, false, kAll, 1},
    {O::kPrimary, "primary"_kj, 4, 0, false, false, kPrimaryModes, kInt},
    {O::kPrimaryReselect, "primaryReselect"_kj, 1, 0, false, false, kAll, 2},
    {O::kFailOverMac, "failOverMac"_kj, 1, 0, false, true, kAll, 2},
    {O::kXmitHashPolicy, "xmitHashPolicy"_kj, 1, 0, false, false, kAll, 5},
    {O::kResendIgmp, "resendIgmp"_kj, 4, 1, false, false, kAll, 255},
    {O::kNumPeerNotif, "numPeerNotif"_kj, 1, 1, false, false, kAll, 255},
    {O::kAllMembersActive, "allSlavesActive"_kj, 1, 0, false, false, kAll, 1},
    {O::kMinLinks, "minLinks"_kj, 4, 0, false, false, kAll, kInt},
    {O::kLpInterval, "lpInterval"_kj, 4, 1, false, false, kAll, kInt, 1},
    {O::kPacketsPerMember, "packetsPerSlave"_kj, 4, 1, false, false, kRoundRobin, 65535},
    {O::kLacpActive, "lacpActive"_kj, 1, 1, true, false, kLacpModes, 1},
    {O::kLacpRate, "lacpRate"_kj, 1, 0, true, false, kLacpModes, 1},
    {O::kAdSelect, "adSelect"_kj, 1, 0, true, false, kAll, 2},
    {O::kAdActorSysPrio, "adActorSysPrio"_kj, 2, 65535, false, false, kLacpModes, 65535, 1},
    {O::kAdUserPortKey, "adUserPortKey"_kj, 2, 0, true, false, kLacpModes, 1023},
    {O::kTlbDynamicLb, "tlbDynamicLb"_kj, 1, 1, true, false, kAdaptive, 1},
    {O::kMissedMax, "missedMax"_kj, 1, 2, false, false, kArpModes, 255, 1},
    {O::kCoupledControl, "coupledControl"_kj, 1, 1, true, false, kLacpModes, 1},
};

constexpr O kDelays[] = {O::kUpDelay, O::kDownDelay, O::kPeerNotifDelay};

uint32_t valueOr0(const BondOptions& options, O option) {
  return options[option].value_or(0);
}

// Returns the modes in which the option has an effect, bit n for mode n. The driver accepts some
// options in other modes, too.
uint8_t effectiveModes(const BondRule& rule) {
  switch (rule.option) {
    case O::kAdSelect:
    case O::kMinLinks:
      return kLacpModes;
    case O::kArpAllTargets:
    case O::kFailOverMac:
    case O::kNumPeerNotif:
    case O::kPeerNotifDelay:
      return kActiveBackup;
    case O::kLpInterval:
      return kAdaptive;
    case O::kPrimaryReselect:
      return kPrimaryModes;
    case O::kResendIgmp:
      return kFailOverModes;
    case O::kXmitHashPolicy:
      return kHashModes;
    default:
      return rule.modes;
  }
}

// Returns true if the option has an effect in this mode. An option without an effect does not
// justify taking a bond down.
bool matters(const BondRule& rule, BondMode mode) {
  return (effectiveModes(rule) >> unsigned(mode) & 1) != 0;
}

// Returns true for options that are set separately: they name links, which have to be members
// first.
bool namesLink(O option) {
  return option == O::kPrimary || option == O::kActiveMember;
}

// Returns the default instead of a value that is out of range.
uint32_t valueOrStandard(const BondRule& rule, const std::optional<uint32_t>& given, BondMode mode,
                         BondProblem& problem) {
  if (!given) return rule.standardIn(mode);
  if (*given <= rule.most && *given >= rule.least) return *given;
  problem(rule.name, kj::str("is ", *given, "; must be ", rule.least, " to ", rule.most));
  return rule.standardIn(mode);
}

// Drops the options of one way of monitoring: the driver monitors links by miimon or by ARP, and
// refuses the options of both together.
void chooseMonitoring(BondOptions& options, BondProblem& problem) {
  auto mode = options.mode();
  auto miimon = valueOr0(options, O::kMiimon);
  if (miimon == 0 && !ruleOf(O::kArpInterval).fits(mode)) {
    options[O::kMiimon] = miimon = ruleOf(O::kMiimon).standardIn(mode);
  }
  for (auto option : {O::kArpInterval, O::kArpValidate, O::kArpAllTargets}) {
    if (valueOr0(options, option) == 0) continue;
    if (miimon != 0) {
      problem(ruleOf(option).name, "cannot be used with miimon; miimon is used");
      options[option] = 0;
    } else if (option != O::kArpInterval && valueOr0(options, O::kArpInterval) == 0) {
      problem(ruleOf(option).name, "has no effect without arpInterval");
      options[option] = 0;
    }
  }
  for (auto delay : kDelays) {
    auto& value = options[delay];
    if (!value) continue;
    if (miimon != 0) {
      value = *value / miimon * miimon;  // as the driver rounds it
      continue;
    }
    if (*value != 0) problem(ruleOf(delay).name, "has no effect without miimon");
    value.reset();
  }
}

}  // namespace

kj::ArrayPtr<const BondRule> bondRules() {
  return kRules;
}

const BondRule& ruleOf(BondOption option) {
  for (auto& rule : kRules) {
    if (rule.option == option) return rule;
  }
  KJ_UNREACHABLE;
}

uint32_t BondRule::standardIn(BondMode mode) const {
  // These modes cannot do without link monitoring, so the driver switches it on.
  if (option == O::kMiimon && (kArpModes >> unsigned(mode) & 1) == 0) return kLinkMonitoring;
  return standard;
}

kj::String usedOnlyIn(const BondRule& rule, BondMode mode) {
  kj::Vector<kj::StringPtr> names;
  for (unsigned other = 0; other < kBondModes; ++other) {
    if (matters(rule, BondMode(other))) names.add(nameOf(BondMode(other)));
  }
  auto last = names.back();
  names.removeLast();
  auto modes = names.size() == 0 ? kj::str("mode ", last)
                                 : kj::str("modes ", kj::strArray(names, ", "), " and ", last);
  return kj::str("is used only in ", modes, ", not in ", nameOf(mode));
}

BondOptions effectiveBond(const BondOptions& given, BondProblem problem) {
  BondOptions result;
  auto mode = given.mode();
  for (auto& rule : bondRules()) {
    if (namesLink(rule.option)) continue;
    auto& value = given[rule.option];
    if (matters(rule, mode)) {
      result[rule.option] = valueOrStandard(rule, value, mode, problem);
    } else if (value && *value != rule.standard) {
      problem(rule.name, usedOnlyIn(rule, mode));
    }
  }
  chooseMonitoring(result, problem);
  auto& byArp = ruleOf(O::kArpInterval);
  auto targets = given.arpTargets.value_or(std::vector<Ip>());
  // An interval that is not used was reported.
  if (!targets.empty() && valueOr0(given, O::kArpInterval) == 0) {
    problem("arpIPTarget", byArp.fits(mode) ? kj::str("has no effect without arpInterval")
                                            : usedOnlyIn(byArp, mode));
  }
  if (byArp.fits(mode)) result.arpTargets = kj::mv(targets);
  if (mode == BondMode::kLacp) {
    result.actorSystem = given.actorSystem.value_or(Mac{});
  } else if (given.actorSystem) {
    problem("adActorSystem", usedOnlyIn(ruleOf(O::kAdActorSysPrio), mode));
  }
  return result;
}

BondOptions bondDifference(const BondOptions& effective, const BondOptions& current) {
  BondOptions send;
  bool newMode = effective.mode() != current.mode();
  for (auto& rule : bondRules()) {
    auto& value = effective[rule.option];
    if (!value) continue;
    auto& now = current[rule.option];
    // An older kernel does not report an option that it does not have.
    bool differs = now && *now != *value;
    // A change of the mode resets some options, so all non-standard options are sent again.
    bool again = newMode && now && *value != rule.standardIn(effective.mode());
    if (differs || again) send[rule.option] = value;
  }
  if (send[O::kMiimon] && valueOr0(send, O::kMiimon) != 0) {
    // The driver keeps the delays as multiples of miimon, so they changed with it. miimon also ends
    // ARP monitoring with its options; naming these in the same message is an error.
    for (auto delay : kDelays) {
      if (valueOr0(effective, delay) != 0) send[delay] = effective[delay];
    }
    send[O::kArpValidate].reset();
  }
  if (effective.arpTargets &&
      *effective.arpTargets != current.arpTargets.value_or(std::vector<Ip>())) {
    send.arpTargets = effective.arpTargets;
  }
  // Only a privileged reader gets the system, in mode 802.3ad; a new mode keeps it.
  auto system = current.actorSystem.value_or(Mac{});
  if (effective.actorSystem && *effective.actorSystem != system) {
    send.actorSystem = effective.actorSystem;
  }
  return send;
}

}  // namespace talos::netlink
