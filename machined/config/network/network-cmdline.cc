#include "machined/config/network/network-cmdline.h"

#include <ctype.h>

#include "common/base/annotation.h"
#include "common/base/fill-list.h"
#include "common/net/text-values.h"

namespace talos::machined {

namespace {

constexpr unsigned kSmallestMtu = 68, kLargestMtu = 65536, kLargestVlan = 4094;
constexpr size_t kVlanDigits = 4;

// The driver's options that differ from the config's names in more than the spelling rules.
struct Spelling {
  kj::StringPtr driver, config;
};
constexpr Spelling kSpellings[] = {{"arp_ip_target"_kj, "arpIPTarget"_kj},
                                   {"num_grat_arp"_kj, "numPeerNotif"_kj},
                                   {"num_unsol_na"_kj, "numPeerNotif"_kj},
                                   {"peer_notif_delay"_kj, "peerNotifyDelay"_kj}};

kj::String configName(kj::StringPtr option) {
  for (auto& spelling : kSpellings) {
    if (spelling.driver == option) return kj::str(spelling.config);
  }
  kj::Vector<char> name;
  bool next = false;
  for (char c : option) {
    if (c == '_') {
      next = true;
    } else {
      name.add(next ? toupper(c) : c);
      next = false;
    }
  }
  return kj::heapString(name.begin(), name.size());
}

bool isNumber(kj::StringPtr text) {
  for (char c : text) {
    if (c < '0' || c > '9') return false;
  }
  return text.size() > 0;
}

// Returns true for the characters of names, addresses and options.
bool isPlain(kj::StringPtr text) {
  for (char c : text) {
    if (isalnum(c) == 0 && kj::StringPtr(".+-_:").findFirst(c) == nullptr) return false;
  }
  return text.size() > 0;
}

// Sets a field from the config's word, or from the driver's number for this word.
kj::Maybe<kj::String> setWord(capnp::DynamicStruct::Builder bond, capnp::StructSchema::Field field,
                              kj::StringPtr value) {
  auto type = field.getType().asEnum();
  auto number = value.tryParseAs<uint16_t>().orDefault(0xffff);
  kj::Vector<kj::StringPtr> words;
  for (auto word : type.getEnumerants()) {
    if (annotation::isCalled(word, value) || (isNumber(value) && word.getOrdinal() == number)) {
      bond.set(field, capnp::DynamicEnum(word));
      return nullptr;
    }
    words.add(annotation::nameOf(word));
  }
  return kj::str("\"", value, "\" is not a valid ", annotation::text(type, annotation::kNoun),
                 "; use one of ", kj::strArray(words, ", "));
}

kj::Maybe<kj::String> setTruth(capnp::DynamicStruct::Builder bond, capnp::StructSchema::Field field,
                               kj::StringPtr value) {
  bool yes = value == "1" || value == "true", no = value == "0" || value == "false";
  if (!yes && !no) return kj::str("\"", value, "\" is neither true nor false");
  bond.set(field, yes);
  return nullptr;
}

kj::Maybe<kj::String> setNumber(capnp::DynamicStruct::Builder bond,
                                capnp::StructSchema::Field field, kj::StringPtr value) {
  auto most = field.getType().isUInt8()    ? uint64_t{0xff}
              : field.getType().isUInt16() ? uint64_t{0xffff}
                                           : uint64_t{0xffffffff};
  auto number = isNumber(value) ? value.tryParseAs<uint64_t>().orDefault(most + 1) : most + 1;
  if (number > most) return kj::str("\"", value, "\" must be 0 to ", most);
  bond.set(field, number);
  return nullptr;
}

// Returns the error in the value; nullptr if it was set. Does not use the YAML reader, which must
// not be in the brain.
kj::Maybe<kj::String> setValue(capnp::DynamicStruct::Builder bond, capnp::StructSchema::Field field,
                               kj::StringPtr value) {
  auto type = field.getType();
  if (type.isList()) {
    auto parts = splitFields(value, ';');
    auto list = bond.init(field, static_cast<unsigned>(parts.size())).as<capnp::DynamicList>();
    for (auto i : kj::indices(parts)) list.set(i, capnp::Text::Reader(parts[i]));
    return nullptr;
  }
  if (type.isEnum()) return setWord(bond, field, value);
  if (type.isBool()) return setTruth(bond, field, value);
  if (!type.isText()) return setNumber(bond, field, value);
  bond.set(field, capnp::Text::Reader(value));
  return nullptr;
}

// Returns the error in the option; nullptr if it was set in `bond`.
kj::Maybe<kj::String> setOption(config::Bond::Builder bond, kj::StringPtr option) {
  KJ_IF_MAYBE (equals, option.findFirst('=')) {
    auto key = configName(kj::str(option.slice(0, *equals)));
    kj::StringPtr value = option.slice(*equals + 1);
    for (auto field : capnp::Schema::from<config::Bond>().getFields()) {
      if (annotation::nameOf(field) != key || key == "interfaces") continue;
      for (auto& part : splitFields(value, ';')) {
        if (!isPlain(part)) return kj::str("\"", value, "\" is not a valid value");
      }
      return setValue(bond, field, value);
    }
    return kj::str("not a valid option of bonds");
  }
  return kj::str("use name=value, for example mode=802.3ad");
}

}  // namespace

kj::Maybe<BondParameter> parseBondParameter(kj::StringPtr text, kj::Vector<kj::String>& problems) {
  auto problem = [&](auto&&... why) { problems.add(kj::str("bond=", text, ": ", why...)); };
  auto fields = splitFields(text, ':');
  auto field = [&](size_t i) { return i < fields.size() ? kj::StringPtr(fields[i]) : ""_kj; };
  BondParameter result;
  result.name = kj::str(text.size() == 0 ? "bond0"_kj : field(0));
  if (!config::isLinkName(result.name)) {
    problem("\"", result.name, "\" is not a valid link name");
    return nullptr;
  }
  if (fields.size() > 4) problem("too many fields; use name:links:options:MTU");
  auto bond = result.bond.edit();
  auto members = splitFields(field(1).size() == 0 ? "eth0,eth1"_kj : field(1), ',');
  kj::Vector<kj::StringPtr> good;
  for (auto& member : members) {
    if (config::isLinkName(member) && member != result.name) {
      good.add(member);
    } else {
      problem("\"", member, "\" is not a valid member of ", result.name);
    }
  }
  fillTexts(bond.initInterfaces(good.size()), good);
  if (field(2).size() > 0) {
    for (auto& option : splitFields(field(2), ',')) {
      KJ_IF_MAYBE (why, setOption(bond, option)) problem(option, ": ", *why);
    }
  }
  if (field(3).size() > 0) {
    result.mtu = field(3).tryParseAs<unsigned>().orDefault(0);
    if (result.mtu < kSmallestMtu || result.mtu > kLargestMtu) {
      problem("\"", field(3), "\" is not a valid MTU; must be 68 to 65536");
      result.mtu = 0;
    }
  }
  return kj::mv(result);
}

kj::Maybe<VlanParameter> parseVlanParameter(kj::StringPtr text, kj::Vector<kj::String>& problems) {
  auto refuse = [&](auto&&... why) -> kj::Maybe<VlanParameter> {
    problems.add(kj::str("vlan=", text, ": ", why...));
    return nullptr;
  };
  auto fields = splitFields(text, ':');
  if (fields.size() != 2) return refuse("use name:link, for example vlan=eth0.5:eth0");
  VlanParameter result{kj::mv(fields[0]), kj::mv(fields[1])};
  for (auto name : {&result.name, &result.parent}) {
    if (!config::isLinkName(*name)) return refuse("\"", *name, "\" is not a valid link name");
  }
  auto prefix = kj::str(result.parent, ".");
  kj::StringPtr digits;
  for (auto before : {kj::StringPtr(prefix), "vlan"_kj}) {
    if (result.name.startsWith(before)) digits = result.name.slice(before.size());
  }
  if (!isNumber(digits) || digits.size() > kVlanDigits) {
    return refuse("\"", result.name, "\" has no VLAN ID; use for example ", result.parent,
                  ".5 or vlan5");
  }
  unsigned id = digits.parseAs<unsigned>();
  if (id > kLargestVlan) return refuse(id, " is not a valid VLAN ID; must be 0 to 4094");
  result.id = id;
  return kj::mv(result);
}

kj::Maybe<IpParameter> parseIpParameter(kj::StringPtr text, kj::Vector<kj::String>& problems) {
  auto fields = splitFields(text, ':');
  if (fields.size() < 4) return nullptr;
  auto field = [&](size_t i) { return i < fields.size() ? kj::StringPtr(fields[i]) : ""_kj; };
  auto refuse = [&](auto&&... why) -> kj::Maybe<IpParameter> {
    problems.add(kj::str("ip=", text, ": ", why...));
    return nullptr;
  };
  auto client = Ip::parse(field(0));
  KJ_IF_MAYBE (c, client) {
    if (c->family() != AF_INET || c->isAny() || c->isMulticast() || c->isLoopback()) {
      return refuse("\"", field(0), "\" is not a valid IPv4 address of a node");
    }
    kj::Maybe<unsigned> length;
    KJ_IF_MAYBE (mask, Ip::parse(field(3))) length = maskLength(*mask);
    if (length == nullptr)
      return refuse("\"", field(3), "\" is not a valid netmask; use for example 255.255.255.0");
    IpParameter result{
        Prefix{*c, KJ_ASSERT_NONNULL(length)}, nullptr, kj::str(field(4)), kj::str(field(5)), {}};
    if (field(2).size() > 0) {
      auto gateway = Ip::parse(field(2));
      KJ_IF_MAYBE (g, gateway) {
        if (g->family() == AF_INET && !g->isAny()) result.gateway = *g;
      } else {
        problems.add(
            kj::str("ip=", text, ": the gateway \"", field(2), "\" is not an IPv4 address"));
      }
    }
    for (size_t i = 7; i <= 8; ++i) {
      KJ_IF_MAYBE (resolver, Ip::parse(field(i))) {
        if (!resolver->isAny()) result.resolvers.add(*resolver);
      }
    }
    return kj::mv(result);
  }
  return refuse("\"", field(0), "\" is not an IPv4 address");
}

bool predictableNames(const KernelArguments& arguments) {
  auto values = arguments.all("net.ifnames");
  return values.size() > 0 && values.back() == "1";
}

kj::Vector<kj::String> splitFields(kj::StringPtr text, char by) {
  kj::Vector<kj::String> fields;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == by) {
      fields.add(kj::heapString(text.begin() + begin, i - begin));
      begin = i + 1;
    }
  }
  return fields;
}

}  // namespace talos::machined
