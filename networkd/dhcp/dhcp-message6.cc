#include "networkd/dhcp/dhcp-message6.h"

#include "common/text/foreign-text.h"

namespace talos::networkd::dhcp {
namespace {

using Type6 = Message6::Type;

constexpr size_t kShortestIdentifier = 3, kLongestIdentifier = 130, kLongestText6 = 200;  // §11.1
constexpr size_t kMostAssociations = 16, kMostAddresses6 = 16, kMostWanted = 64;

struct Option6 {
  enum Code : uint16_t {
    kClientId = 1,
    kServerId = 2,
    kAssociation = 3,
    kAddress = 5,
    kWanted = 6,
    kPreference = 7,
    kElapsed = 8,
    kStatus = 13,
    kRapidCommit = 14,
    kResolvers = 23,
    kSearch = 24,
    kSimpleTime = 31,
    kRefresh = 32,
    kName = 39,
    kTime = 56,
    kSolicitMaximum = 82,
    kInformationMaximum = 83,
  };
};
enum TimeOption : uint16_t { kTimeAddress = 1 };

// Calls each(code, value); returns false if an option extends beyond the field.
template <typename F>
bool eachOption(Bytes field, F&& each) {
  Reader in(field);
  while (in.left() > 0) {
    auto code = in.u16();
    auto value = in.take(in.u16());
    if (in.bad()) return false;
    each(code, value);
  }
  return true;
}

Status6 statusIn(Bytes value) {
  Reader in(value);
  auto code = in.u16();
  return {code, fieldText(in.take(in.left()).asChars(), kLongestText6)};
}

bool readAddress(Bytes value, Association6& association) {
  Reader in(value);
  Address6 address;
  address.address = in.ip(AF_INET6);
  address.preferred = in.u32();
  address.valid = in.u32();
  if (in.bad()) return false;
  bool whole = eachOption(in.take(in.left()), [&](uint16_t code, Bytes option) {
    if (code == Option6::kStatus && option.size() >= 2) address.status = statusIn(option);
  });
  // §21.6: addresses without this order are ignored.
  if (whole && address.preferred <= address.valid &&
      association.addresses.size() < kMostAddresses6) {
    association.addresses.add(kj::mv(address));
  }
  return whole;
}

bool readAssociation(Bytes value, Message6& message) {
  Reader in(value);
  Association6 association;
  association.id = in.u32();
  association.renewal = in.u32();
  association.rebinding = in.u32();
  if (in.bad()) return false;
  bool good = true;
  bool whole = eachOption(in.take(in.left()), [&](uint16_t code, Bytes option) {
    if (code == Option6::kAddress) good = readAddress(option, association) && good;
    if (code == Option6::kStatus && option.size() >= 2) association.status = statusIn(option);
  });
  bool sensible =
      association.rebinding == 0 || association.renewal <= association.rebinding;  // §21.4
  if (whole && good && sensible && message.associations.size() < kMostAssociations) {
    message.associations.add(kj::mv(association));
  }
  return whole && good;
}

void readTimeServers(Bytes value, Message6& message) {
  eachOption(value, [&](uint16_t code, Bytes option) {
    if (code == kTimeAddress && option.size() == 16) {
      for (auto& ip : serversIn(option, AF_INET6)) {
        if (message.timeServers.size() < kMostAddresses6) message.timeServers.add(ip);
      }
    }
  });
}

void setIdentifier(kj::Array<kj::byte>& identifier, Bytes value) {
  if (value.size() >= kShortestIdentifier && value.size() <= kLongestIdentifier) {
    identifier = copyOf(value);
  }
}

// Returns false if the option breaks the format.
bool readOption(uint16_t code, Bytes value, Message6& message) {
  Reader in(value);
  switch (code) {
    case Option6::kClientId:
      setIdentifier(message.client, value);
      break;
    case Option6::kServerId:
      setIdentifier(message.server, value);
      break;
    case Option6::kAssociation:
      return readAssociation(value, message);
    case Option6::kWanted:
      while (in.left() >= 2 && message.wanted.size() < kMostWanted) message.wanted.add(in.u16());
      break;
    case Option6::kPreference:
      if (value.size() == 1) message.preference = value[0];
      break;
    case Option6::kElapsed:
      if (value.size() == 2) message.elapsed = in.u16();
      break;
    case Option6::kStatus:
      if (value.size() >= 2) message.status = statusIn(value);
      break;
    case Option6::kRapidCommit:
      message.rapidCommit = true;
      break;
    case Option6::kResolvers:
      message.resolvers = serversIn(value, AF_INET6);
      break;
    case Option6::kSearch:
      message.search = namesIn(value, false);
      break;
    case Option6::kSimpleTime:
      if (message.timeServers.size() == 0) message.timeServers = serversIn(value, AF_INET6);
      break;
    case Option6::kTime:
      readTimeServers(value, message);
      break;
    case Option6::kRefresh:
      if (value.size() == 4) message.refresh = in.u32();
      break;
    case Option6::kSolicitMaximum:
      if (value.size() == 4) message.longestSolicit = in.u32();
      break;
    case Option6::kInformationMaximum:
      if (value.size() == 4) message.longestInformation = in.u32();
      break;
    case Option6::kName:
      if (value.size() > 1) {
        auto names = namesIn(value.slice(1, value.size()), false);  // skips the flags
        if (names.size() > 0) message.hostname = kj::mv(names[0]);
      }
      break;
    default:
      break;
  }
  return true;
}

// --- encoding

void put(Writer& out, Option6::Code code, Bytes value) {
  out.u16(code).u16(value.size()).bytes(value);
}

void put(Writer& out, const kj::Maybe<Status6>& status) {
  KJ_IF_MAYBE (s, status) {
    put(out, Option6::kStatus, Writer().u16(s->code).bytes(s->text.asBytes()).written());
  }
}

void put(Writer& out, const Association6& association) {
  Writer value;
  value.u32(association.id).u32(association.renewal).u32(association.rebinding);
  for (auto& address : association.addresses) {
    Writer inner;
    inner.ip(address.address).u32(address.preferred).u32(address.valid);
    put(inner, address.status);
    put(value, Option6::kAddress, inner.written());
  }
  put(value, association.status);
  put(out, Option6::kAssociation, value.written());
}

void put(Writer& out, Option6::Code code, kj::ArrayPtr<const Ip> addresses) {
  if (addresses.size() == 0) return;
  Writer value;
  for (auto& ip : addresses) value.ip(ip);
  put(out, code, value.written());
}

}  // namespace

Parsed6 parse6(Bytes bytes) {
  Reader in(bytes);
  Message6 message;
  auto type = in.u8();
  message.exchange = in.u8() << 16;
  message.exchange |= in.u16();
  if (in.bad()) return {nullptr, "it is too short"};
  if (type < 1 || type > 11) return {nullptr, "its type is unknown"};
  message.type = static_cast<Type6>(type);
  bool good = true;
  bool whole = eachOption(in.take(in.left()), [&](uint16_t code, Bytes value) {
    good = readOption(code, value, message) && good;
  });
  if (!whole || !good) return {nullptr, "an option goes beyond its end"};
  return {kj::mv(message), nullptr};
}

kj::Array<kj::byte> encode(const Message6& message) {
  Writer out;
  out.u8(static_cast<uint8_t>(message.type))
      .u8(message.exchange >> 16)
      .u16(message.exchange & 0xffff);
  if (message.client.size() > 0) put(out, Option6::kClientId, message.client);
  if (message.server.size() > 0) put(out, Option6::kServerId, message.server);
  KJ_IF_MAYBE (elapsed, message.elapsed)
    put(out, Option6::kElapsed, Writer().u16(*elapsed).written());
  if (message.rapidCommit) put(out, Option6::kRapidCommit, Bytes());
  if (message.wanted.size() > 0) {
    Writer value;
    for (auto code : message.wanted) value.u16(code);
    put(out, Option6::kWanted, value.written());
  }
  if (message.hostname.size() > 0) {
    Writer value;
    value.u8(1);  // the server updates the name's AAAA record
    writeName(value, message.hostname);
    put(out, Option6::kName, value.written());
  }
  for (auto& association : message.associations) put(out, association);
  KJ_IF_MAYBE (preference, message.preference)
    put(out, Option6::kPreference, Writer().u8(*preference).written());
  put(out, message.status);
  put(out, Option6::kResolvers, message.resolvers.asPtr());
  put(out, Option6::kSimpleTime, message.timeServers.asPtr());
  if (message.search.size() > 0) {
    Writer value;
    for (auto& name : message.search) writeName(value, name);
    put(out, Option6::kSearch, value.written());
  }
  KJ_IF_MAYBE (refresh, message.refresh)
    put(out, Option6::kRefresh, Writer().u32(*refresh).written());
  KJ_IF_MAYBE (longest, message.longestSolicit) {
    put(out, Option6::kSolicitMaximum, Writer().u32(*longest).written());
  }
  KJ_IF_MAYBE (longest, message.longestInformation) {
    put(out, Option6::kInformationMaximum, Writer().u32(*longest).written());
  }
  return out.finish();
}

kj::Array<kj::byte> linkLayerIdentifier(uint16_t hardwareType, Bytes hardwareAddress) {
  constexpr uint16_t kLinkLayer = 3;  // DUID-LL
  return Writer().u16(kLinkLayer).u16(hardwareType).bytes(hardwareAddress).finish();
}

}  // namespace talos::networkd::dhcp
