#include "common/bond/bond-options.h"

#include <capnp/dynamic.h>
#include <kj/vector.h>

namespace talos::netlink {

using O = BondOption;

namespace {

constexpr O kDelays[] = {O::kUpDelay, O::kDownDelay, O::kPeerNotifDelay};

uint32_t valueOr0(const BondOptions& options, O option) {
  return options[option].value_or(0);
}

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

// Whether the option does something in this mode: one that does nothing is not worth taking a bond
// down for.
bool matters(const BondRule& rule, BondMode mode) {
  if (rule.option == O::kAdSelect) return mode == BondMode::kLacp;
  if (rule.option == O::kFailOverMac) return mode == BondMode::kActiveBackup;
  return rule.fits(mode);
}

// The field of the machine config that has the option as a number; some options have none.
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

// Where the config's zero stands for the standard, it is not given.
bool meansZero(const BondRule& rule) {
  return rule.option == O::kMode || (rule.standard != 0 && rule.least == 0);
}

// Set apart: they name links, which have to be members first.
bool namesLink(O option) {
  return option == O::kPrimary || option == O::kActiveMember;
}

}  // namespace

kj::String modesOf(const BondRule& rule) {
  kj::Vector<kj::StringPtr> names;
  for (unsigned mode = 0; mode < kBondModes; ++mode) {
    if (matters(rule, BondMode(mode))) names.add(nameOf(BondMode(mode)));
  }
  auto last = names.back();
  names.removeLast();
  if (names.size() == 0) return kj::str("mode ", last);
  return kj::str("modes ", kj::strArray(names, ", "), " and ", last);
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
    if (*mac != netlink::Mac{}) options.actorSystem = *mac;
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

// What is no value of the option counts as not given.
uint32_t valueOrStandard(const BondRule& rule, const std::optional<uint32_t>& given, BondMode mode,
                         BondProblem& problem) {
  if (!given) return rule.standardIn(mode);
  if (*given <= rule.most && *given >= rule.least) return *given;
  problem(rule.name, kj::str("is ", *given, "; must be ", rule.least, " to ", rule.most));
  return rule.standardIn(mode);
}

// The driver watches links in one of two ways, and wants nothing of the other beside it.
void chooseMonitoring(BondOptions& options, BondProblem& problem) {
  auto mode = options.mode();
  auto miimon = valueOr0(options, O::kMiimon);
  if (miimon == 0 && !ruleOf(O::kArpInterval).fits(mode)) {
    options[O::kMiimon] = miimon = ruleOf(O::kMiimon).standardIn(mode);
  }
  for (auto option : {O::kArpInterval, O::kArpValidate}) {
    if (valueOr0(options, option) == 0) continue;
    if (miimon != 0) {
      problem(ruleOf(option).name, "cannot be used with miimon; miimon is used");
      options[option] = 0;
    } else if (option == O::kArpValidate && valueOr0(options, O::kArpInterval) == 0) {
      problem(ruleOf(option).name, "has no effect without arpInterval");
      options[option] = 0;
    }
  }
  for (auto delay : kDelays) {
    auto& value = options[delay];
    if (miimon != 0) {
      value = *value / miimon * miimon;  // as the driver rounds it
      continue;
    }
    if (*value != 0) problem(ruleOf(delay).name, "has no effect without miimon");
    value.reset();
  }
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
      problem(rule.name, kj::str("is used only in ", modesOf(rule)));
    }
  }
  chooseMonitoring(result, problem);
  if (ruleOf(O::kArpInterval).fits(mode)) {
    result.arpTargets = given.arpTargets.value_or(std::vector<Ip>());
  }
  if (mode == BondMode::kLacp) {
    result.actorSystem = given.actorSystem.value_or(Mac{});
  } else if (given.actorSystem) {
    problem("adActorSystem", "is used only in mode 802.3ad");
  }
  return result;
}

}  // namespace talos::netlink
