#include "networkd/dhcp/dhcp-message4.h"

#include <kj/debug.h>

#include <algorithm>
#include <array>

#include "common/text/foreign-text.h"

namespace talos::networkd::dhcp {
namespace {

using Type4 = Message4::Type;

constexpr uint32_t kCookie = 0x63825363;
constexpr size_t kHardwareField = 16, kServerNameField = 64, kFileField = 128;
constexpr size_t kLeastSize = 300, kLongestPiece = 255, kLongestText4 = 200;
constexpr unsigned kLeastMtu = 68;  // RFC 2132 §5.1
constexpr uint16_t kBroadcastFlag = 0x8000;
constexpr size_t kMostRoutes = 64;

struct Option4 {
  enum Code : uint8_t {
    kPad = 0,
    kMask = 1,
    kRouter = 3,
    kResolver = 6,
    kHostname = 12,
    kDomain = 15,
    kMtu = 26,
    kTimeServer = 42,
    kRequested = 50,
    kLease = 51,
    kOverload = 52,
    kType = 53,
    kServer = 54,
    kParameters = 55,
    kText = 56,
    kMaximumSize = 57,
    kRenewal = 58,
    kRebinding = 59,
    kClientIdentifier = 61,
    kSearch = 119,
    kClasslessRoutes = 121,
    kEnd = 255,
  };
};

// The pieces of each option, joined.
class Options {
 public:
  // Returns false if an option extends beyond the field.
  bool read(Bytes field) {
    Reader in(field);
    while (in.left() > 0) {
      auto code = in.u8();
      if (code == Option4::kPad) continue;
      if (code == Option4::kEnd) return true;
      auto piece = in.take(in.u8());
      if (in.bad()) return false;
      present[code] = true;
      values[code].addAll(piece);
    }
    return true;  // Some servers omit the end option.
  }
  bool has(Option4::Code code) const { return present[code]; }
  Bytes get(Option4::Code code) const { return values[code]; }

 private:
  std::array<bool, 256> present{};
  std::array<kj::Vector<kj::byte>, 256> values;
};

kj::Maybe<Ip> address(const Options& options, Option4::Code code) {
  auto value = options.get(code);
  if (value.size() != 4) return nullptr;
  return Ip::fromBytes(value);
}

kj::Maybe<uint32_t> number(const Options& options, Option4::Code code, size_t size) {
  Reader in(options.get(code));
  if (in.left() != size) return nullptr;
  return size == 4 ? in.u32() : in.u16();
}

kj::String name(const Options& options, Option4::Code code) {
  return nameIn(options.get(code)).orDefault(kj::String());
}

// Parses RFC 3442: width, the significant octets of the destination, gateway. Returns nullptr if
// one route is invalid: half of the routes could misdirect traffic.
kj::Maybe<kj::Vector<Route4>> classlessRoutes(const Options& options) {
  if (!options.has(Option4::kClasslessRoutes)) return nullptr;
  kj::Vector<Route4> routes;
  Reader in(options.get(Option4::kClasslessRoutes));
  while (in.left() > 0) {
    unsigned length = in.u8();
    if (length > 32) return nullptr;
    kj::byte octets[4] = {};
    auto significant = in.take((length + 7) / 8);
    std::copy(significant.begin(), significant.end(), octets);
    auto gateway = in.ip(AF_INET);
    if (in.bad() || routes.size() == kMostRoutes) return nullptr;
    Prefix destination{KJ_ASSERT_NONNULL(Ip::fromBytes(kj::arrayPtr(octets, 4))), length};
    routes.add(Route4{destination.masked(), gateway});
  }
  return kj::mv(routes);
}

void fill(Message4& message, const Options& options) {
  message.server = address(options, Option4::kServer);
  message.requested = address(options, Option4::kRequested);
  message.lease = number(options, Option4::kLease, 4);
  message.renewal = number(options, Option4::kRenewal, 4);
  message.rebinding = number(options, Option4::kRebinding, 4);
  KJ_IF_MAYBE (mask, address(options, Option4::kMask)) message.prefixLength = maskLength(*mask);
  message.routers = addressesIn(options.get(Option4::kRouter), AF_INET);
  message.resolvers = serversIn(options.get(Option4::kResolver), AF_INET);
  message.timeServers = serversIn(options.get(Option4::kTimeServer), AF_INET);
  message.classlessRoutes = classlessRoutes(options);
  message.search = namesIn(options.get(Option4::kSearch), true);
  message.hostname = name(options, Option4::kHostname);
  message.domain = name(options, Option4::kDomain);
  KJ_IF_MAYBE (mtu, number(options, Option4::kMtu, 2)) {
    if (*mtu >= kLeastMtu) message.mtu = static_cast<uint16_t>(*mtu);
  }
  message.maximumSize = number(options, Option4::kMaximumSize, 2).map([](uint32_t size) {
    return static_cast<uint16_t>(size);
  });
  message.clientIdentifier = copyOf(options.get(Option4::kClientIdentifier));
  message.parameters = copyOf(options.get(Option4::kParameters));
  message.text = fieldText(options.get(Option4::kText).asChars(), kLongestText4);
}

// --- encoding

class OptionWriter {
 public:
  explicit OptionWriter(Writer& out) : out(out) {}

  void put(Option4::Code code, Bytes value) {
    do {
      auto piece = value.slice(0, kj::min(value.size(), kLongestPiece));
      out.u8(code).u8(piece.size()).bytes(piece);
      value = value.slice(piece.size(), value.size());
    } while (value.size() > 0);
  }
  void put(Option4::Code code, const kj::Maybe<Ip>& address) {
    KJ_IF_MAYBE (a, address) put(code, a->bytes());
  }
  void put(Option4::Code code, kj::ArrayPtr<const Ip> addresses) {
    if (addresses.size() == 0) return;
    Writer value;
    for (auto& a : addresses) value.ip(a);
    put(code, value.written());
  }
  void put(Option4::Code code, const kj::Maybe<uint32_t>& number) {
    KJ_IF_MAYBE (n, number) put(code, Writer().u32(*n).written());
  }
  void put(Option4::Code code, const kj::Maybe<uint16_t>& number) {
    KJ_IF_MAYBE (n, number) put(code, Writer().u16(*n).written());
  }
  void put(Option4::Code code, kj::StringPtr text) {
    if (text.size() > 0) put(code, text.asBytes());
  }

 private:
  Writer& out;
};

void writeOptions(Writer& out, const Message4& message) {
  OptionWriter options(out);
  kj::byte type = static_cast<kj::byte>(message.type);
  options.put(Option4::kType, kj::arrayPtr(&type, 1));
  if (message.clientIdentifier.size() > 0)
    options.put(Option4::kClientIdentifier, message.clientIdentifier);
  options.put(Option4::kServer, message.server);
  options.put(Option4::kRequested, message.requested);
  options.put(Option4::kMaximumSize, message.maximumSize);
  if (message.parameters.size() > 0) options.put(Option4::kParameters, message.parameters);
  options.put(Option4::kLease, message.lease);
  options.put(Option4::kRenewal, message.renewal);
  options.put(Option4::kRebinding, message.rebinding);
  KJ_IF_MAYBE (length, message.prefixLength) options.put(Option4::kMask, maskOf(*length).bytes());
  options.put(Option4::kRouter, message.routers.asPtr());
  options.put(Option4::kResolver, message.resolvers.asPtr());
  options.put(Option4::kTimeServer, message.timeServers.asPtr());
  options.put(Option4::kHostname, message.hostname);
  options.put(Option4::kDomain, message.domain);
  options.put(Option4::kMtu, message.mtu);
  options.put(Option4::kText, message.text);
  KJ_IF_MAYBE (routes, message.classlessRoutes) {
    Writer value;
    for (auto& route : *routes) {
      value.u8(route.destination.length)
          .bytes(route.destination.address.bytes().slice(0, (route.destination.length + 7) / 8))
          .ip(route.gateway);
    }
    options.put(Option4::kClasslessRoutes, value.written());
  }
  if (message.search.size() > 0) {
    Writer value;
    for (auto& name : message.search) writeName(value, name);
    options.put(Option4::kSearch, value.written());
  }
  out.u8(Option4::kEnd);
}

template <typename T>
bool same(const kj::Vector<T>& a, const kj::Vector<T>& b) {
  return a.asPtr() == b.asPtr();
}

bool same(const kj::Maybe<kj::Vector<Route4>>& a, const kj::Maybe<kj::Vector<Route4>>& b) {
  KJ_IF_MAYBE (x, a) {
    KJ_IF_MAYBE (y, b) return same(*x, *y);
    return false;
  }
  return b == nullptr;
}

}  // namespace

Parsed4 parse4(Bytes bytes) {
  Reader in(bytes);
  Message4 message;
  auto operation = in.u8();
  message.hardwareType = in.u8();
  auto hardwareSize = in.u8();
  in.u8();  // hops
  message.exchange = in.u32();
  message.seconds = in.u16();
  message.broadcast = (in.u16() & kBroadcastFlag) != 0;
  message.client = in.ip(AF_INET);
  message.yours = in.ip(AF_INET);
  message.next = in.ip(AF_INET);
  message.relay = in.ip(AF_INET);
  auto hardwareAddress = in.take(kHardwareField);
  auto serverName = in.take(kServerNameField);
  auto file = in.take(kFileField);
  auto cookie = in.u32();
  if (in.bad()) return {nullptr, "it is too short"};
  if (operation != 1 && operation != 2) return {nullptr, "it is neither request nor reply"};
  if (hardwareSize > kHardwareField) return {nullptr, "its hardware address is too long"};
  if (cookie != kCookie) return {nullptr, "it is BOOTP, not DHCP"};
  message.reply = operation == 2;
  message.hardwareAddress = copyOf(hardwareAddress.slice(0, hardwareSize));

  Options options;
  bool whole = options.read(in.take(in.left()));
  auto overload = options.get(Option4::kOverload);
  unsigned fields = overload.size() == 1 ? overload[0] : 0;
  if ((fields & 1) != 0) whole = options.read(file) && whole;
  if ((fields & 2) != 0) whole = options.read(serverName) && whole;
  if (!whole) return {nullptr, "an option goes beyond its end"};
  auto type = options.get(Option4::kType);
  if (type.size() != 1 || type[0] < 1 || type[0] > 8) return {nullptr, "its type is unknown"};
  message.type = static_cast<Type4>(type[0]);
  fill(message, options);
  return {kj::mv(message), nullptr};
}

kj::Array<kj::byte> encode(const Message4& message) {
  Writer out;
  size_t size = kj::min(message.hardwareAddress.size(), kHardwareField);
  out.u8(message.reply ? 2 : 1).u8(message.hardwareType).u8(size).u8(0);
  out.u32(message.exchange).u16(message.seconds).u16(message.broadcast ? kBroadcastFlag : 0);
  out.ip(message.client).ip(message.yours).ip(message.next).ip(message.relay);
  out.bytes(message.hardwareAddress.slice(0, size)).zeros(kHardwareField - size);
  out.zeros(kServerNameField + kFileField).u32(kCookie);
  writeOptions(out, message);
  if (out.size() < kLeastSize) out.zeros(kLeastSize - out.size());
  return out.finish();
}

bool Message4::operator==(const Message4& o) const {
  return reply == o.reply && hardwareType == o.hardwareType &&
         hardwareAddress.asPtr() == o.hardwareAddress.asPtr() && exchange == o.exchange &&
         seconds == o.seconds && broadcast == o.broadcast && client == o.client &&
         yours == o.yours && next == o.next && relay == o.relay && type == o.type &&
         server == o.server && requested == o.requested && lease == o.lease &&
         renewal == o.renewal && rebinding == o.rebinding && prefixLength == o.prefixLength &&
         same(routers, o.routers) && same(resolvers, o.resolvers) &&
         same(timeServers, o.timeServers) && same(classlessRoutes, o.classlessRoutes) &&
         same(search, o.search) && hostname == o.hostname && domain == o.domain && mtu == o.mtu &&
         maximumSize == o.maximumSize && clientIdentifier.asPtr() == o.clientIdentifier.asPtr() &&
         parameters.asPtr() == o.parameters.asPtr() && text == o.text;
}

}  // namespace talos::networkd::dhcp
