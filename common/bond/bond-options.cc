#include "common/bond/bond-options.h"

#include <capnp/dynamic.h>

#include "common/base/annotation.h"
#include "common/bond/bond-rules.h"

namespace talos::netlink {
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

}  // namespace talos::netlink
